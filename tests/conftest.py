"""What all tests share."""

from __future__ import annotations

from importlib import metadata

pytest_plugins = ["tests.servers.fixtures"]
#: Installed, the plugin is found by its entry point, and naming it again would be an error.
if not metadata.entry_points(group="pytest11", name="holdfast"):
    pytest_plugins.append("holdfast.testing.plugin")
