"""Clients on Redisson's keys, of both faces, and peers.

A test is a coroutine over a `Scene`. It is played on both faces, and in each of its variants, all
at once, because most of its time it waits; each has a name, a peer and a proxy of its own. For the
same reason some tests are begun ahead, and each then waits for its own.
"""

from __future__ import annotations

import inspect
import itertools
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

# Here, because scenes begin at once, and a module that two threads import may be half there.
from holdfast.dialects.redisson import aio, blocking  # noqa: F401
from holdfast.errors import StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.conformance.arena import unclear
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import RESET_REPLY, RESP, Fault, Proxy
from tests.servers.redis_server import RedisServer
from tests.torture.scale import times

from .peer import Peer, Version

HERE = Path(__file__).parent
LIMIT_S = times(110, 60)
#: So many tests are played at once.
AT_ONCE = 4
#: Of a test that was begun: its end.
BEGUN = pytest.StashKey[Future[None]]()
POOL = pytest.StashKey[ThreadPoolExecutor]()
Text = Callable[["Scene"], Coroutine[Any, Any, None]]
#: Plays a text; by keyword what is different from one variant to the next.
Play = Callable[..., None]
#: Both versions of the peers.
BOTH: tuple[Version, ...] = ("3.8.1", "current")


class Scene:
    """What a test is given: clients, a peer, and others who act beside it."""

    def __init__(
        self, face: Face, server: RedisServer, version: Version, kind: str, fault: Fault
    ) -> None:
        lag.watch()
        self.face = face
        self.server = server
        self.version = version
        self.kind = kind
        self.fault = fault
        #: A name that nobody else uses.
        self.name = f"name-{secrets.token_hex(6)}"
        self.ends = ExitStack()
        self.peer = self.ends.enter_context(Peer(server, version))
        self.redis = self.ends.enter_context(server.client())
        self._proxy: Proxy | None = None
        self._clients: list[Any] = []

    @property
    def proxy(self) -> Proxy:
        """Stands between a client and the server."""
        if self._proxy is None:
            wanted = Proxy(self.server.host, self.server.port, RESP)
            self._proxy = self.ends.enter_context(wanted)
        return self._proxy

    def client(self, words: str = "", port: int = 0, **options: Any) -> Any:
        """A client of the face under test, with these options in its URL; closed afterwards."""
        place = f"127.0.0.1:{port or self.server.port}/0"
        url = f"redis+redisson://{place}?client={self.version}&{words}".rstrip("&")
        client = self.face.client(url, **options)
        self._clients.append(client)
        return client

    async def until(self, true: Callable[[], Any], within: float = 10.0) -> Any:
        """Wait until something is true, and give what it gave."""
        end = time.monotonic() + within
        while not (found := true()):
            assert time.monotonic() < end, "it did not come true"
            await self.face.sleep(0.005)
        return found

    async def listening(self, channel: str, many: int = 1) -> None:
        """Wait until so many listen there."""
        await self.until(lambda: dict(self.redis.pubsub_numsub(channel))[channel.encode()] >= many)

    async def in_vain(self, lock: Any, timeout: float) -> None:
        """Who wants it waits in vain; a machine that stands still at the end may leave no time for
        an answer, and then that is said."""
        begun = boottime()
        try:
            assert await lock.acquire(timeout=timeout) is None
        except StoreUnavailable:
            if not unclear(begun):
                raise

    async def give_back(self, hold: Any) -> bool:
        """Release what may be lost, for which a busy server is given more than one request."""
        for _ in range(20):
            try:
                return bool(await hold.release())
            except StoreUnavailable:
                await self.face.sleep(0.05)
        raise AssertionError("the server is too busy")

    async def close(self) -> None:
        """End what was begun."""
        for client in self._clients:
            await client.close()
        self.ends.close()


def _play(text: Text, scene: Scene) -> None:
    async def main() -> None:
        try:
            await text(scene)
        finally:
            await scene.close()

    try:
        scene.face.run(main, LIMIT_S)
    except BaseException as failure:
        what = scene.face.name, scene.version, scene.kind, scene.fault
        failure.add_note(f"on the scene {what} of {scene.name}")
        raise


@pytest.fixture(scope="session")
def ahead(request: pytest.FixtureRequest) -> Iterator[ThreadPoolExecutor]:
    """Where tests run that were begun ahead."""
    with ThreadPoolExecutor(AT_ONCE, "ahead") as pool:
        request.session.stash[POOL] = pool
        yield pool
        pool.shutdown(cancel_futures=True)


def _is_played(item: pytest.Item) -> bool:
    """Does the test need nothing but to be played?"""
    return (
        isinstance(item, pytest.Function)
        and item.path.parent == HERE
        and list(inspect.signature(item.function).parameters) == ["play"]
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """The first that is played begins all of them; each waits for its own."""
    if not _is_played(pyfuncitem):
        return None
    if BEGUN not in pyfuncitem.stash:
        pool = pyfuncitem.session.stash[POOL]
        for item in pyfuncitem.session.items:
            if _is_played(item) and isinstance(item, pytest.Function):
                item.stash[BEGUN] = pool.submit(item.function, pyfuncitem.funcargs["play"])
    pyfuncitem.stash[BEGUN].result()
    return True


@pytest.fixture
def play(shared_redis: RedisServer, ahead: ThreadPoolExecutor) -> Play:
    """Plays a text on both faces, and in each variant."""

    def run(
        text: Text,
        versions: Iterable[Version] = ("current",),
        kinds: Iterable[str] = ("",),
        faults: Iterable[Fault] = (RESET_REPLY,),
    ) -> None:
        wanted = list(itertools.product(FACES.values(), versions, kinds, faults))
        with ThreadPoolExecutor(len(wanted), "scene") as pool:
            scenes = [Scene(face, shared_redis, *rest) for face, *rest in wanted]
            played = [pool.submit(_play, text, scene) for scene in scenes]
        for one in played:
            one.result()

    return run
