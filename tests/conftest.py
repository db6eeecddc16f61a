"""What all tests share."""

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


starting.popen = forked.popen


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import all of holdfast in this thread, with pytest watching.

    pytest parses each module of a plugin's package when it is first imported, and a CPython
    before 3.11.8 fails now and then with "AST constructor recursion depth mismatch" if two threads
    parse at the same time (gh-106905): so nothing may be left for threads of tests to import. The
    server for agents runs in processes of its own; its library takes longer than all else together.
    Where the runner says that all is compiled, nothing is parsed.
    """
    if os.environ.get("HOLDFAST_COMPILED"):
        return
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.endswith(("__main__", "mcp.server")):
            importlib.import_module(module.name)


#: A usual run plays half the cases of each test in these rooms: they have servers and processes.
HALVED = {"cli", "dialects", "faults", "interop", "stores", "torture", "traps"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave cases of tests in such rooms, or that are marked so, to a full run, a change that is
    about them, and a command that names one."""
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
    """So many of the cases of one test, with each value of each parameter about equally often."""
    # Stores that share a test begin with different ones.
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
    """Count the tests themselves no more whenever the collector runs: there are ten thousand."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was tried only in part."""
    for what, said in LEFT_OUT.items():
        terminalreporter.write_line(f"{what}: {said}")
