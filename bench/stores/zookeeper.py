"""The ZooKeeper arena: one server on the same machine, kazoo's lock, and bare nodes as a floor."""

from __future__ import annotations

import contextlib
import importlib
import re
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import servers
from ..contenders import Arena, Contender, Part
from ..model import Target
from . import feeds_ours, feeds_zookeeper, ours

OURS = "holdfast"
OURS_ASYNC = "holdfast, asyncio"
KAZOO = "kazoo Lock"
BARE = "create and delete, kazoo"
LOCKING_QUEUE = "kazoo LockingQueue"
_URL = servers.url
_DURABLE = "-Dzookeeper.forceSync=yes"
_PROPERTIES = "META-INF/maven/org.apache.zookeeper/zookeeper/pom.properties"
_ONCE: frozenset[Part] = frozenset({"uncontended"})


def _connected() -> Any:
    from kazoo.client import KazooClient

    client = KazooClient(hosts=servers.url().partition("://")[2])
    client.start(30)
    return client


class KazooLock:
    """kazoo's lock, with one lock object for all acquires."""

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
    """The floor, no lock: create an ephemeral sequential node, and delete it."""

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


@contextlib.contextmanager
def _around() -> Generator[str]:
    """Start a durable server with usual settings; the tests' server is smaller and not durable."""
    settings, java = ("tickTime=2000",), ("-Xmx256m", "-XX:TieredStopAtLevel=4", _DURABLE)
    with (
        servers.folder() as place,
        servers.running("zookeeper", "ZooKeeperServer", place, *settings, java=java),
    ):
        yield f"ZooKeeper {_version()} on the loopback, alone, with its log on the disk"


def _version() -> str:
    """Return the version in the jar, because Debian's server doesn't report its version."""
    jar = importlib.import_module("tests.servers.zookeeper").JAR
    with contextlib.suppress(OSError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(jar) as packed:
        if found := re.search(rb"version=([0-9.]+)", packed.read(_PROPERTIES)):
            return found[1].decode()
    return "of an unknown version"


def _commands(_place: Path) -> Mapping[str, Sequence[str]]:
    return {}


ZOOKEEPER = Arena(
    name="zookeeper",
    title="ZooKeeper, next to kazoo's lock",
    contenders=(
        Contender(OURS, ours.kept(_URL, ours.own_name)),
        Contender(OURS_ASYNC, ours.on_loop(_URL, ours.own_name), "asyncio"),
        Contender(KAZOO, KazooLock, package="kazoo"),
        Contender(BARE, Bare, package="kazoo", parts=_ONCE),
    ),
    reference=KAZOO,
    url=_URL,
    commands=_commands,
    around=_around,
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
)
