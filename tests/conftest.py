"""Settings, hooks and plugins that all tests share."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import signal
from collections import Counter
from importlib import metadata
from pathlib import Path
from zlib import crc32

import pytest

import holdfast
from holdfast.testing import starting
from tests import change, forked
from tests.torture.scale import FULL, LEFT_OUT

# `tests.stores` contains checks that test modules import; pytest must rewrite their assertions.
pytest.register_assert_rewrite("tests.stores")

pytest_plugins = ["tests.servers.fixtures", "tests.witness"]
#: An installed plugin is found by its entry point; to name it again would be an error.
if not metadata.entry_points(group="pytest11", name="holdfast"):
    pytest_plugins.append("holdfast.testing.plugin")

# A shell that starts pytest in the background, or by nohup, can set these signals to be ignored.
# Every child would inherit that, but many tests send these signals. A child does not inherit a
# handler.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


starting.popen = forked.popen


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import all of holdfast in this thread, while pytest is watching.

    pytest parses each module of a plugin's package when it is first imported. A CPython before
    3.11.8 sometimes fails with "AST constructor recursion depth mismatch" if two threads parse at
    the same time (gh-106905). So threads of tests must have nothing left to import.

    The server for agents runs in separate processes, and its library takes longer to import than
    all other modules together. If the runner reports that all modules are compiled, nothing is
    parsed.
    """
    if os.environ.get("HOLDFAST_COMPILED"):
        return
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.endswith(("__main__", "mcp.server")):
            importlib.import_module(module.name)


#: A usual run plays half the cases of each test in these folders: they use servers and processes.
HALVED = {"cli", "dialects", "faults", "interop", "stores", "torture", "traps"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out some cases of slow tests: those in `HALVED` folders and those marked ``usual``.

    They still run in a full run, for a change that touches them, and if the command names a test.
    """
    every: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("usual") or _room(item) in HALVED:
            every.setdefault(item.nodeid.partition("[")[0], []).append(item)
    if not every or FULL or any("::" in one for one in config.args):
        return
    changed = change.files()
    left_out: set[pytest.Item] = set()
    for cases in every.values():
        if not change.touches(cases[0].path, changed):
            mark = cases[0].get_closest_marker("usual")
            number = mark.args[0] if mark else (len(cases) + 1) // 2
            left_out |= {*cases} - {*covering(cases, number)}
    LEFT_OUT["tests with servers or processes"] = (
        f"{len(left_out)} cases; `./dev test full` plays all"
    )
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=[*left_out])


def _room(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


def covering(cases: list[pytest.Item], number: int) -> list[pytest.Item]:
    """Return ``number`` cases of one test that use each value of each parameter about equally."""
    # The sort by hash makes stores that share a test begin with different cases.
    left = sorted(cases, key=lambda one: crc32(one.nodeid.encode()))
    chosen: list[pytest.Item] = []
    while left and len(chosen) < number:
        played = Counter(value for one in chosen for value in _values(one))
        chosen.append(min(left, key=lambda one: sum(played[value] for value in _values(one))))
        left.remove(chosen[-1])
    return chosen


def _values(case: pytest.Item) -> list[tuple[int, str]]:
    call = getattr(case, "callspec", None)
    return [*enumerate(call._idlist)] if call is not None else []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude the tests themselves from garbage collection: there are ten thousand."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the tests that ran only in part."""
    for what, said in LEFT_OUT.items():
        terminalreporter.write_line(f"{what}: {said}")
