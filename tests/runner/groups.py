"""All tests, in several processes at once, because most of their time they wait for something.

``python -m tests.runner`` runs every group below, each in a process of its own, a few at a time;
what a process has said is shown when it ends, and at last the sum. ``python -m tests.runner kit
redis`` runs only these. No plugin hands the tests out one by one, because those of one folder share
servers, and count threads. ``python -m tests.runner quick`` runs what needs no server.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
#: Groups that run side by side, on two cores: they wait much of their time.
AT_ONCE = 8
#: A full run works for most of its time; more at once would only run into their limits.
AT_ONCE_FULL = 5


class Group(NamedTuple):
    """What one process runs: these folders and files, without what is another group's inside."""

    name: str
    paths: tuple[str, ...]
    #: Of these only tests with such names, as pytest's ``-k`` has it; another group has ``not``.
    only: str = ""


#: Where the runs of the kit are; those that are work of our own process, and those on Redis.
KIT, HERE, REDIS = "conformance/test_conformance.py", "[memory- or [sqlite-", "[redis"
#: What takes long comes first, so that the last ones to end are short. A folder that no group
#: names, be it beside these or in ``stores``, is a group of its own, and begins after all others.
GROUPS = (
    # The longest of a full run.
    Group("torture-jobs", ("torture/test_queues.py",)),
    Group("planted", ("mutants/test_planted.py",)),
    Group("several", ("stores/redis/several", "stores/redis/aio", "traps")),
    Group("postgres", ("stores/postgres",)),
    Group("mysql", ("stores/mysql",)),
    Group("commands", ("cli",)),
    Group("redis", ("stores/redis",)),
    Group("faults", ("conformance", "faults", "servers", "testing")),
    Group("torture", ("torture",)),
    Group("worlds", ("conformance/test_worlds.py",)),
    Group("operators", ("mutants/test_operators.py",)),
    Group("kit-servers", (KIT,), only=f"not ({HERE} or {REDIS})"),
    Group("core", ("core",)),
    Group("pages", ("bench", "demo", "harness", "pages", "tidy", "typing")),
    Group("embedded", ("stores/sqlite",)),
    Group("dialects", ("dialects", "interop", "sql")),
    Group("zookeeper", ("stores/zookeeper",)),
    Group("fenced", ("fenced", "mutants", "queues", "examples")),
    Group("platforms", ("caches", "comeback", "guard", "platforms")),
    Group("agents", ("cli/test_mcp.py", "cli/test_across.py", "cli/test_terminal.py")),
    Group("kit", (KIT,), only=HERE),
    Group("streams", ("cli/test_closed.py", "cli/test_origin.py", "cli/test_redis.py")),
    Group("histories", ("sim", "stores/redis/test_torture.py")),
    Group("starving", ("stores/redis/test_odd.py", "stores/redis/test_starving.py")),
    Group("kit-redis", (KIT,), only=REDIS),
    Group("interrupts", ("stores/redis/test_interrupt.py", "stores/redis/test_death.py")),
    Group("redis-jobs", ("stores/redis/queues", "stores/redis/values")),
)
#: What a change is tested by first: no server, and two minutes with all checks. So it is without
#: the longest: those that try all cases of a class, and those that kill processes.
_LONG = "url_secrets or door_walk_kit or few_descriptors or neighbours or damage_rounds or death"
#: Tests of the core, and of the embedded store, that wait for most of their time.
_ENDS = ("odd_ends", "itself", "itself_not", "claims", "given_back", "keeper_end")
_WAITS = ("dead_waiters", "waiting", "foreign", "books", "gate", "odd_rows")
QUICK = (
    Group("embedded", ("stores/sqlite",), only=f"not ({_LONG})"),
    Group("core", ("core",), only=f"not ({_LONG})"),
    Group("core-ends", tuple(f"core/test_{one}.py" for one in _ENDS)),
    Group("exits", ("core/test_exits.py",)),
    Group("embedded-waits", tuple(f"stores/sqlite/test_{one}.py" for one in _WAITS)),
    Group("queues", ("queues",)),
    Group("guard", ("guard", "testing")),
    Group("memory", (KIT,), only="[memory-"),
)


def tests() -> list[str]:
    """Every file of tests, as the groups name them."""
    return sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))


def groups() -> list[Group]:
    """All groups: those with names, then those without."""
    unnamed = [file for file in tests() if not any(covers(one, file) for one in GROUPS)]
    return [*GROUPS, *(Group(place, (place,)) for place in sorted(set(map(_place, unnamed))))]


def _place(file: str) -> str:
    """The folder that is a group of its own where no group names this file."""
    parts = file.split("/")
    return "/".join(parts[: 2 if parts[0] == "stores" and len(parts) > 2 else 1])


def covers(group: Group, file: str) -> bool:
    """Is the file, or a folder that it is in, named by the group?"""
    return any(_inside(file, path) for path in group.paths)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def command(group: Group, everything: Iterable[Group]) -> list[str]:
    """What runs the group: its paths, without those that others have inside them."""
    others = {path for one in everything for path in one.paths} - set(group.paths)
    inner = sorted(path for path in others if covers(group, path))
    return [
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.runner.plugin"),
        # The runner itself ends a test that hangs, and says which.
        *(f"--rootdir={TESTS.parent}", "-o", "faulthandler_timeout=0"),
        *(["-k", group.only] if group.only else []),
        *(str(TESTS / path) for path in group.paths),
        *(f"--ignore={TESTS / path}" for path in inner),
    ]
