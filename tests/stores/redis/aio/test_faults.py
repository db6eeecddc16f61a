"""Connections that break, stall or mix up replies: no claim ever gets a wrong answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from holdfast import AsyncClient
from holdfast.stores.redis.library import JOIN, LEAVE, Script
from holdfast.testing.faults import DROP_REPLY, DROP_REQUEST, Fault, Proxy
from holdfast.testing.faults.wire import resp
from tests.servers.redis_server import RedisServer
from tests.stores.redis.aio.conftest import play, wire_of
from tests.stores.redis.conftest import Look, fences


@pytest.mark.usual(3)
@pytest.mark.parametrize("fault", [DROP_REQUEST, DROP_REPLY], ids=["request", "reply"])
@pytest.mark.parametrize("script", [JOIN, LEAVE], ids=["join", "leave"])
def test_what_is_lost_among_others_is_noticed_by_the_next_reply(
    fault: Fault,
    script: Script,
    proxied: str,
    proxy: Proxy,
    own_name: str,
    line: Look,
    nothing_left: Callable[[str], None],
) -> None:
    async def main() -> None:
        async with AsyncClient(proxied) as client:
            for number in range(10):
                names = [f"{own_name}:{number}:{at}" for at in range(20)]
                # Given many requests on one connection, one of them without a reply: the replies to
                # later requests then come in place of the missing one
                armed = proxy.arm(script.sha, fault)
                holds = await asyncio.gather(*[client.lock(one).acquire() for one in names])
                # Then no claim takes the reply of another for its own
                assert [fences(line(name)) for name in names] == [[hold.fence] for hold in holds]
                assert all(await asyncio.gather(*[hold.release() for hold in holds]))
                assert armed.hits == 1
        nothing_left(own_name)

    play(main)


class Liar:
    """A proxy between a client and a server that can send one reply twice.

    After that, each reply that the client gets belongs to the request before.
    """

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.port = 0
        self.twice = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Liar]:
        """Accept clients until the end of the with-block."""
        self._ends: list[asyncio.StreamWriter] = []
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        yield self
        listener.close()
        for one in self._ends:
            one.close()
        await asyncio.sleep(0.01)

    async def _serve(self, ear: asyncio.StreamReader, mouth: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(self._server.host, self._server.port)
        self._ends += [mouth, there[1]]
        await asyncio.gather(self._ask(ear, there[1]), self._answer(there[0], mouth))

    async def _ask(self, ear: asyncio.StreamReader, mouth: asyncio.StreamWriter) -> None:
        while piece := await ear.read(65536):
            mouth.write(piece)
        mouth.close()

    async def _answer(self, ear: asyncio.StreamReader, mouth: asyncio.StreamWriter) -> None:
        data = b""
        while piece := await ear.read(65536):
            data += piece
            while data and (length := resp(data)):
                message, data = data[:length], data[length:]
                mouth.write(message)
                if self.twice:
                    self.twice -= 1
                    mouth.write(message)
        mouth.close()


@pytest.mark.parametrize("crew", [1, 2, 50])
def test_a_reply_with_a_wrong_tag_drops_the_connection(
    crew: int,
    shared_redis: RedisServer,
    own_name: str,
    line: Look,
    nothing_left: Callable[[str], None],
) -> None:
    async def main() -> None:
        async with (
            Liar(shared_redis).listening() as liar,
            AsyncClient(f"redis://127.0.0.1:{liar.port}") as client,
        ):
            for number in range(30):
                async with client.lock(f"{own_name}:warm"):
                    wire = wire_of(client)
                # Given a server that sends one reply twice
                liar.twice = 1
                names = [f"{own_name}:{number}:{at}" for at in range(crew)]
                holds = await asyncio.gather(*[client.lock(one).acquire() for one in names])
                assert [fences(line(name)) for name in names] == [[hold.fence] for hold in holds]
                assert all(await asyncio.gather(*[hold.release() for hold in holds]))
                assert wire.over
                assert wire_of(client) is not wire
        nothing_left(own_name)

    play(main)
