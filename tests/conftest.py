"""What all tests share."""

from __future__ import annotations

import signal
from importlib import metadata

pytest_plugins = ["tests.servers.fixtures"]
#: Installed, the plugin is found by its entry point, and naming it again would be an error.
if not metadata.entry_points(group="pytest11", name="holdfast"):
    pytest_plugins.append("holdfast.testing.plugin")

# Who starts us in the background, or by nohup, may have told us to ignore these, and every child
# would as well: but many tests send them. A handler is not inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)
