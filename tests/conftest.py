"""What all tests share."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import signal
from importlib import metadata

import pytest

import holdfast
from tests.torture.scale import LEFT_OUT

# What several stores are tested with stands beside them, and is imported by their modules.
pytest.register_assert_rewrite("tests.stores")

pytest_plugins = ["tests.servers.fixtures", "tests.witness"]
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


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import all of holdfast in this thread, with pytest watching.

    pytest parses each module of a plugin's package when it is first imported, and a CPython
    before 3.11.8 fails now and then with "AST constructor recursion depth mismatch" if two threads
    parse at the same time (gh-106905): so nothing may be left for threads of tests to import.
    """
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count the tests themselves no more whenever the collector runs: there are ten thousand."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was tried only in part."""
    for what, said in LEFT_OUT.items():
        terminalreporter.write_line(f"{what}: {said}")
