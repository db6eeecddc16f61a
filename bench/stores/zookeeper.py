"""The ZooKeeper arena: one server on the same machine, kazoo's lock in it, and the bare nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import zookeeper_server as server
from ..contenders import Arena, Contender, Part
from ..model import Target
from . import feeds_ours, feeds_zookeeper, ours

OURS = "holdfast"
OURS_ASYNC = "holdfast, asyncio"
KAZOO = "kazoo Lock"
BARE = "create and delete, kazoo"
LOCKING_QUEUE = "kazoo LockingQueue"
_URL = server.zookeeper_url
_ONCE: frozenset[Part] = frozenset({"uncontended"})


def _connected() -> Any:
    from kazoo.client import KazooClient

    client = KazooClient(hosts=server.hosts())
    client.start(30)
    return client


class KazooLock:
    """kazoo's recipe, with a lock object that is kept."""

    def __init__(self, place: Path) -> None:
        self._client = _connected()
        self._lock = self._client.Lock(f"/kazoo/{place.name}", "bench")

    async def take(self) -> None:
        self._lock.acquire()

    async def within(self, seconds: float) -> bool:
        from kazoo.exceptions import LockTimeout

        try:
            return bool(self._lock.acquire(timeout=seconds))
        except LockTimeout:
            return False

    async def free(self) -> None:
        self._lock.release()

    async def close(self) -> None:
        self._client.stop()
        self._client.close()

    def pair(self) -> Callable[[], object]:
        acquire, release = self._lock.acquire, self._lock.release

        def pair() -> None:
            acquire()
            release()

        return pair


class Bare:
    """No lock: an ephemeral numbered node is created, and deleted."""

    def __init__(self, place: Path) -> None:
        self._client = _connected()
        self._path = f"/bare/{place.name}"
        self._client.ensure_path(self._path)
        self._node = ""

    async def take(self) -> None:
        self._node = self._client.create(f"{self._path}/x-", b"", ephemeral=True, sequence=True)

    async def within(self, seconds: float) -> bool:
        raise RuntimeError("the floor doesn't wait")

    async def free(self) -> None:
        self._client.delete(self._node)

    async def close(self) -> None:
        self._client.stop()
        self._client.close()

    def pair(self) -> Callable[[], object]:
        create, delete, start = self._client.create, self._client.delete, f"{self._path}/x-"

        def pair() -> None:
            delete(create(start, b"", ephemeral=True, sequence=True))

        return pair


def _commands(_place: Path) -> Mapping[str, Sequence[str]]:
    return {}


ZOOKEEPER = Arena(
    name="zookeeper",
    title="ZooKeeper, beside kazoo's lock",
    contenders=(
        Contender(OURS, ours.kept(_URL, ours.own_name)),
        Contender(OURS_ASYNC, ours.on_loop(_URL, ours.own_name), "asyncio"),
        Contender(KAZOO, KazooLock, package="kazoo"),
        Contender(BARE, Bare, package="kazoo", parts=_ONCE),
    ),
    reference=KAZOO,
    url=_URL,
    commands=_commands,
    around=server.zookeeper_server,
    suites=("uncontended", "handoff", "contention", "queue"),
    targets={
        key: [
            Target(OURS, "pair", "ratio", at_most=1.5, against=BARE),
            Target(OURS, "pair", "ratio", at_most=1.0),
        ]
        for key in ("uncontended", "uncontended-warm")
    }
    | {key: [Target(OURS, "p50", "ratio", at_most=1.0)] for key in ("handoff-idle", "handoff-warm")}
    | {
        "queue-deep": [Target("holdfast, a loop", "rate", "ratio", at_least=3.0)],
        "contention-8": [
            Target(OURS, "jain", "value", at_least=0.98),
            Target(OURS, "starved", "value", at_most=0.0),
            Target(OURS, "overlaps", "value", at_most=0.0, safety=True),
            Target(OURS_ASYNC, "overlaps", "value", at_most=0.0, safety=True),
        ],
    },
    references=dict.fromkeys(("queue", "queue-deep", "queue-wake"), LOCKING_QUEUE),
    feeders=(*feeds_ours.feeders(_URL), *feeds_zookeeper.FEEDERS),
    crowds=(8,),
    connections=server.connections,
)
