"""Clients on Redisson's keys, of both faces, and simulated clients of Redisson (peers).

A test is a coroutine over a `Scene`. It is played on both faces and in each of its variants, all at
the same time, because it spends most of its time waiting. Each scene has its own name, peer and
proxy. For the same reason the first test starts all tests of this folder in the background; each
test then waits for its own result.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

# Imported here: scenes begin together, and a module that two threads import can be incomplete.
from holdfast.dialects.redisson import aio, blocking  # noqa: F401
from holdfast.errors import StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.conformance.arena import unclear
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import RESET_REPLY, RESP, Fault, Proxy
from tests.ahead import Ahead
from tests.servers.redis_server import RedisServer
from tests.torture.scale import times

from .peer import Peer, Version

LIMIT_S = times(110, 60)
#: Number of tests that are played at the same time.
AT_ONCE = 4
Text = Callable[["Scene"], Coroutine[Any, Any, None]]
#: Both versions of the peers.
BOTH: tuple[Version, ...] = ("3.8.1", "current")


class Scene:
    """The argument of a test: a face, a server, a peer, and functions that make clients."""

    def __init__(
        self, face: Face, server: RedisServer, version: Version, kind: str, fault: Fault
    ) -> None:
        lag.watch()
        self.face = face
        self.server = server
        self.version = version
        self.kind = kind
        self.fault = fault
        #: A name that no other scene uses.
        self.name = f"name-{secrets.token_hex(6)}"
        self.ends = ExitStack()
        self.peer = self.ends.enter_context(Peer(server, version))
        self.redis = self.ends.enter_context(server.client())
        self._proxy: Proxy | None = None
        self._clients: list[Any] = []

    @property
    def proxy(self) -> Proxy:
        """A proxy between a client and the server, created at first use."""
        if self._proxy is None:
            wanted = Proxy(self.server.host, self.server.port, RESP)
            self._proxy = self.ends.enter_context(wanted)
        return self._proxy

    def client(self, words: str = "", port: int = 0, **options: Any) -> Any:
        """A client of the tested face with these options in its URL; the scene closes it."""
        place = f"127.0.0.1:{port or self.server.port}/0"
        url = f"redis+redisson://{place}?client={self.version}&{words}".rstrip("&")
        client = self.face.client(url, **options)
        self._clients.append(client)
        return client

    async def until(self, true: Callable[[], Any], within: float = 10.0) -> Any:
        """Wait until ``true()`` is true, and return its result."""
        end = time.monotonic() + within
        while not (found := true()):
            assert time.monotonic() < end, "it did not come true"
            await self.face.sleep(0.005)
        return found

    async def listening(self, channel: str, many: int = 1) -> None:
        """Wait until this number of subscribers listen on the channel."""
        await self.until(lambda: dict(self.redis.pubsub_numsub(channel))[channel.encode()] >= many)

    async def in_vain(self, lock: Any, timeout: float) -> None:
        """Check that the lock is not granted within the time-out.

        An error is accepted only if the machine stood still, so that no time was left for an
        answer.
        """
        begun = boottime()
        try:
            assert await lock.acquire(timeout=timeout) is None
        except StoreUnavailable:
            if not unclear(begun):
                raise

    async def give_back(self, hold: Any) -> bool:
        """Release a hold that may be lost; a busy server gets several attempts."""
        for _ in range(20):
            try:
                return bool(await hold.release())
            except StoreUnavailable:
                await self.face.sleep(0.05)
        raise AssertionError("the server is too busy")

    async def close(self) -> None:
        """Close the clients, then the peer, the proxy and the connection."""
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


def played(
    versions: Iterable[Version] = ("current",),
    kinds: Iterable[str] = ("",),
    faults: Iterable[Fault] = (RESET_REPLY,),
) -> Callable[[Text], Callable[..., None]]:
    """Make a test of a text; the arguments list what differs between its variants."""

    def made(text: Text) -> Callable[..., None]:
        def play(server: RedisServer) -> None:
            """Play the text on both faces and in each variant, all at the same time."""
            wanted = list(itertools.product(FACES.values(), versions, kinds, faults))
            with ThreadPoolExecutor(len(wanted), "scene") as pool:
                scenes = [Scene(face, server, *rest) for face, *rest in wanted]
                begun = [pool.submit(_play, text, scene) for scene in scenes]
            for one in begun:
                one.result()

        def test(ahead: Ahead[str, None], request: pytest.FixtureRequest) -> None:
            ahead[request.node.nodeid]

        test.__name__ = text.__name__  # type: ignore[attr-defined]
        test.play = play  # type: ignore[attr-defined]
        return test

    return made


@pytest.fixture(scope="session")
def ahead(request: pytest.FixtureRequest, shared_redis: RedisServer) -> Iterator[Ahead[str, None]]:
    """The tests that are played, a few at a time; all begin when the first one is due."""
    tests = {item.nodeid: getattr(item, "function", None) for item in request.session.items}
    plays = {node: test.play for node, test in tests.items() if hasattr(test, "play")}
    with Ahead(lambda node: plays[node](shared_redis), plays, AT_ONCE) as begun:
        yield begun
