"""The Redis arena: one server on the same machine, and the locks of other libraries in it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from holdfast import Client

from .. import crew, servers
from ..contenders import ALL, Arena, Contender, Part
from ..model import Target
from . import feeds_ours, feeds_redis, ours, shields_ours, shields_redis
from . import redis_bare as bare
from . import redis_peers as peers

OURS = "holdfast"
OURS_ASYNC = "holdfast, asyncio"
REDIS_PY = "redis-py Lock"
REDIS_PY_ASYNC = "redis.asyncio Lock"
PYTHON_REDIS_LOCK = "python-redis-lock"
BARE = "two commands, bare"
BARE_STREAMS = "two commands, bare streams"
SAME = "our commands, bare"
SAME_STREAMS = "our commands, bare streams"
PUBLISH = "PUBLISH, bare"
GET, GET_ASYNC = "GET, bare", "GET, bare, asyncio"
SET_NX = "GET and SET NX by hand"
BY_HAND = "LPUSH, BLMOVE and LREM"

_ONCE: frozenset[Part] = frozenset({"uncontended"})
_WAKES: frozenset[Part] = frozenset({"handoff"})
_NO_TIMEOUT: frozenset[Part] = ALL - {"timeouts"}
_READY_S = 60.0
_URL = servers.url


@contextlib.contextmanager
def around() -> Generator[str]:
    """Start the server and take a first lock, so that a start-up delay of the store has passed."""
    with servers.redis_server() as words:
        crew.alone(_first, _READY_S)
        yield words


def _first() -> None:
    with Client(_URL()) as client:
        client.lock(ours.NAME).acquire().release()


def commands(_place: Path) -> Mapping[str, Sequence[str]]:
    """Return the commands whose start is measured; the first one is the reference."""
    take = "from holdfast import lock; lock('x').acquire().release()"
    theirs = (
        "import os, redis; r = redis.Redis.from_url(os.environ['HOLDFAST_URL']); "
        "one = r.lock('y', timeout=9); one.acquire(); one.release()"
    )
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import holdfast, take and free a lock": [sys.executable, "-c", take],
        "import redis": [sys.executable, "-c", "import redis"],
        "import redis, take and free a lock": [sys.executable, "-c", theirs],
        "holdfast run x -- true": [sys.executable, "-m", "holdfast", "run", "x", "--", "true"],
    }


_PAIR_ASYNC = Target(OURS_ASYNC, "pair", "ratio", at_most=1.3, stretch=1.15, against=SAME_STREAMS)
_HANDOFF = [Target(OURS, "p50", "ratio", at_most=1.8, stretch=1.35)]
_COUNTS = [
    Target(label, column, "value", at_most=most)
    for label in (OURS, OURS_ASYNC)
    for column, most in (("acquire", 1.0), ("release", 1.0), ("handoff", 2.0))
]


def _contended(least: float, stretch: float) -> list[Target]:
    return [
        Target(OURS, "changes", "ratio", at_least=least, stretch=stretch),
        Target(OURS, "jain", "value", at_least=0.995),
        Target(OURS, "starved", "value", at_most=0.0),
        Target(OURS, "overlaps", "value", at_most=0.0, safety=True),
        Target(OURS_ASYNC, "overlaps", "value", at_most=0.0, safety=True),
    ]


REDIS = Arena(
    name="redis",
    title="Redis, next to the locks that others keep in it",
    contenders=(
        Contender(
            OURS,
            ours.kept(_URL, ours.own_name),
            shared=lambda _: ours.Threads(_URL()),
            several=lambda _: ours.AllOf(_URL()),
        ),
        Contender("holdfast, a new lock in `with`", ours.anew(_URL, ours.own_name), parts=_ONCE),
        Contender(
            OURS_ASYNC,
            ours.on_loop(_URL, ours.own_name),
            "asyncio",
            shared=lambda _: ours.Tasks(_URL()),
            several=lambda _: ours.AllOfTasks(_URL()),
        ),
        Contender(
            REDIS_PY,
            peers.RedisPy,
            package="redis",
            period_s=0.1,
            shared=peers.RedisPyThreads,
            several=peers.RedisPyOneByOne,
        ),
        Contender(
            REDIS_PY_ASYNC,
            peers.RedisPyAsyncio,
            "asyncio",
            package="redis",
            period_s=0.1,
            shared=peers.RedisPyTasks,
        ),
        Contender(
            PYTHON_REDIS_LOCK,
            peers.PythonRedisLock,
            package="redis_lock",
            project="python-redis-lock",
            parts=_NO_TIMEOUT,
            shared=peers.PythonRedisLockThreads,
        ),
        Contender("pottery Redlock", peers.Pottery, package="pottery", period_s=0.2),
        Contender(BARE, bare.Bare, parts=_ONCE, shared=bare.BareThreads),
        Contender(BARE_STREAMS, bare.BareStreams, "asyncio", parts=_ONCE),
        Contender(SAME, lambda place: bare.Bare(place, bare.same), parts=_ONCE),
        Contender(
            SAME_STREAMS,
            lambda place: bare.BareStreams(place, bare.same),
            "asyncio",
            parts=_ONCE,
        ),
        Contender(PUBLISH, bare.Baton, parts=_WAKES),
    ),
    reference=REDIS_PY,
    url=_URL,
    commands=commands,
    around=around,
    suites=(
        "uncontended",
        "commands",
        "server",
        "handoff",
        "contention",
        "crowd",
        "one-name",
        "several",
        "queue",
        "queue-fairness",
        "queue-depth",
        "guard",
        "renewal",
        "startup",
        "timeouts",
    ),
    targets={
        "uncontended": [
            Target(OURS, "pair", "ratio", at_most=0.62, stretch=0.55),
            _PAIR_ASYNC,
        ],
        "uncontended-warm": [
            Target(OURS, "pair", "ratio", at_most=0.75, stretch=0.68),
            _PAIR_ASYNC,
        ],
        "commands": [*_COUNTS, Target(OURS, "reentry", "value", at_most=0.0)],
        "server": [
            Target("join", "us", "ratio", at_most=4.0, stretch=3.0),
            Target("leave", "us", "ratio", at_most=2.0, stretch=1.2),
        ],
        "handoff-idle": _HANDOFF,
        "handoff-warm": _HANDOFF,
        "contention-8": _contended(2.0, 3.0),
        "contention-32": _contended(2.5, 4.0),
        "contention-100": _contended(2.5, 3.5),
        "tasks-100": [Target(OURS_ASYNC, "rate", "ratio", at_least=5.0, stretch=7.0)],
        "tasks-1000": [Target(OURS_ASYNC, "rate", "ratio", at_least=9.0, stretch=15.0)],
        "threads-8": [Target(OURS, "rate", "ratio", at_least=2.5, stretch=5.0)],
        "threads-32": [Target(OURS, "rate", "ratio", at_least=2.0, stretch=4.0)],
        "one-name": [Target(OURS_ASYNC, "starved", "value", at_most=0.0)],
        "several": [Target(OURS, "pair", "faster", at_least=5.0)],
        "queue": [
            Target(OURS, "rate", "ratio", at_least=0.8, stretch=1.5),
            Target("holdfast, a loop", "rate", "ratio", at_least=0.8, stretch=1.5),
            Target("holdfast, batches", "rate", "ratio", at_least=8.0),
            Target("holdfast, grouped, batches", "rate", "ratio", at_least=3.0),
            *(
                Target(OURS, "rate", "ratio", at_least=1.0, against=one)
                for one in ("huey", "dramatiq", "rq")
            ),
        ],
        "queue-wake": [Target(OURS, "p50", "value", at_most=2000.0)],
        **shields_ours.targets(GET, GET_ASYNC),
        "renewal": [
            Target(OURS, "threads", "value", at_most=1.0),
            Target(OURS, "connections", "value", at_most=1.0),
            Target(OURS, "lost", "value", at_most=0.0, safety=True),
            Target(OURS, "cpu", "value", at_most=2.0, stretch=0.5),
        ],
    },
    references={
        "tasks-100": REDIS_PY_ASYNC,
        "tasks-1000": REDIS_PY_ASYNC,
        "one-name": REDIS_PY_ASYNC,
        "queue": BY_HAND,
        "queue-wake": BY_HAND,
        **shields_ours.references(GET, SET_NX),
        "handoff-idle": PUBLISH,
        "handoff-warm": PUBLISH,
        "contention-8": PYTHON_REDIS_LOCK,
        "contention-32": PYTHON_REDIS_LOCK,
        "contention-100": PYTHON_REDIS_LOCK,
    },
    feeders=(*feeds_ours.feeders(_URL), *feeds_redis.FEEDERS),
    shielders=(*shields_ours.shielders(_URL), *shields_redis.SHIELDERS),
    crowds=(8, 32, 100),
    connections=servers.connections,
)
