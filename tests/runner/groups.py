"""All tests, in several processes at the same time, because most of their time they wait.

``python -m tests.runner`` runs every group below, each in a separate process, a few at a time. The
output of a process is shown when it ends; the last line is the sum. ``python -m tests.runner kit
redis`` runs only these groups. ``python -m tests.runner quick`` runs tests that need no server.

No plugin distributes single tests, because the tests of a folder share servers and count threads.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
#: Maximum groups at a time, on two cores: they wait much of their time.
AT_ONCE = 8
#: The same for a full run, which works most of its time; more groups would exceed time limits.
AT_ONCE_FULL = 5


class Group(NamedTuple):
    """The tests of one process: these paths, without inner paths of other groups."""

    name: str
    paths: tuple[str, ...]
    #: Only tests whose names match this expression of pytest's ``-k``; another group has ``not``.
    only: str = ""


#: The file of the kit's runs; the runs inside the test process, and those on Redis.
KIT, HERE, REDIS = "conformance/test_conformance.py", "[memory- or [sqlite-", "[redis"
#: The file of the server kit's runs, and its servers: most of their time they wait.
SERVER_KIT = "conformance/test_server_kit.py"
SERVERS = ("redis", "postgresql", "mysql", "zookeeper")
#: The longest groups come first, so that short ones end the run. A folder that no group names, next
#: to these or in ``stores``, is a separate group, and begins after all others.
GROUPS = (
    # The longest group of a full run.
    Group("torture-jobs", ("torture/test_queues.py",)),
    Group("planted", ("mutants/test_planted.py",)),
    Group("several", ("stores/redis/several", "stores/redis/aio", "traps")),
    Group("postgres", ("stores/postgres",)),
    Group("mysql", ("stores/mysql",)),
    Group("commands", ("cli",)),
    Group("redis", ("stores/redis",)),
    *(Group(f"server-kit-{one}", (SERVER_KIT,), only=f"[{one}-") for one in SERVERS),
    Group("server-kit", (SERVER_KIT,), only=f"not ({' or '.join(f'[{one}-' for one in SERVERS)})"),
    Group("faults", ("conformance", "faults", "servers", "testing")),
    Group("torture", ("torture",)),
    Group("two-releases", ("torture/test_mixed.py",)),
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
    Group("interrupts", ("stores/redis/test_interrupt.py", "stores/redis/test_processes.py")),
    Group("redis-jobs", ("stores/redis/queues", "stores/redis/values")),
)
#: The first tests of a change: no server, and two minutes with all checks. So the longest tests are
#: left out: tests that try all cases of a class, and tests that kill processes.
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
    """Return every test file, in the form that groups use."""
    return sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))


def groups() -> list[Group]:
    """Return all groups: first the named ones, then a group for each other folder."""
    unnamed = [file for file in tests() if not any(covers(one, file) for one in GROUPS)]
    return [*GROUPS, *(Group(place, (place,)) for place in sorted(set(map(_place, unnamed))))]


def _place(file: str) -> str:
    """Return the folder that becomes a group, for a file that no group names."""
    parts = file.split("/")
    return "/".join(parts[: 2 if parts[0] == "stores" and len(parts) > 2 else 1])


def covers(group: Group, file: str) -> bool:
    """Return whether the group names the file, or a folder that contains it."""
    return any(_inside(file, path) for path in group.paths)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def command(group: Group, everything: Iterable[Group]) -> list[str]:
    """Return the command of a group: its paths, without paths inside them of other groups."""
    others = {path for one in everything for path in one.paths} - set(group.paths)
    inner = sorted(path for path in others if covers(group, path))
    return [
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.runner.plugin"),
        # The runner itself ends a test that hangs, and reports which one.
        *(f"--rootdir={TESTS.parent}", "-o", "faulthandler_timeout=0"),
        *(["-k", group.only] if group.only else []),
        *(str(TESTS / path) for path in group.paths),
        *(f"--ignore={TESTS / path}" for path in inner),
    ]
