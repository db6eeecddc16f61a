"""Connections that break, stall or mix up replies: no claim ever gets a wrong answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import AsyncClient
from holdfast.core.model import LineRecord
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.library import JOIN, LEAVE, Script
from holdfast.testing import lag
from holdfast.testing.faults import (
    DROP_PUSH,
    DROP_REPLY,
    DROP_REQUEST,
    Fault,
    Proxy,
)
from holdfast.testing.faults.wire import resp
from tests.servers.redis_server import RedisServer
from tests.stores.redis.aio.conftest import Open, play, wire_of
from tests.stores.redis.conftest import Look, fences

lag.watch()


@pytest.mark.usual(3)
@pytest.mark.parametrize("fault", [DROP_REQUEST, DROP_REPLY], ids=["request", "reply"])
@pytest.mark.parametrize("script", [JOIN, LEAVE], ids=["join", "leave"])
def test_what_is_lost_among_others_is_noticed_by_the_next_reply(
    fault: Fault,
    script: Script,
    behind: Open,
    proxy: Proxy,
    own_name: str,
    line: Look,
    nothing_left: Callable[[str], None],
) -> None:
    async def main() -> None:
        async with behind() as client:
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
                # Then each claim has its own fence
                assert [fences(line(name)) for name in names] == [[hold.fence] for hold in holds]
                assert all(await asyncio.gather(*[hold.release() for hold in holds]))
                # And the client has a new connection
                assert wire.over
                assert wire_of(client) is not wire
        nothing_left(own_name)

    play(main)


def test_a_lost_wake_up_costs_at_most_a_second(behind: Open, proxy: Proxy, own_name: str) -> None:
    async def main() -> None:
        async with behind() as client:
            holder = await client.lock(own_name).acquire()
            waiter = asyncio.create_task(client.lock(own_name).acquire())
            while ear_of(client) is None:
                await asyncio.sleep(0.001)
            (waits,) = (await waiting(client, own_name, 1)).waiters
            armed = proxy.arm(f"{waits.fence}".encode(), DROP_PUSH)
            begun = boottime()
            await holder.release()
            await (await waiter).release()
            assert armed.hits == 1
            assert boottime() - begun < 2.5 + lag.since(begun)

    play(main)


def test_waiters_are_woken_again_after_their_connection_was_cut_off(
    behind: Open, proxy: Proxy, own_name: str
) -> None:
    async def main() -> None:
        async with behind() as client, AsyncClient(f"redis://127.0.0.1:{proxy.port}") as other:
            took = []
            for _ in range(20):
                # Given waiters whose connections are cut off
                holder = await other.lock(own_name).acquire()
                crew = [asyncio.create_task(client.lock(own_name).acquire()) for _ in range(5)]
                before = await waiting(client, own_name, 5)
                ears = {ear_of(client), None}
                proxy.reset()
                # When they have connected again and sent their new addresses
                while ear_of(client) in ears:
                    await asyncio.sleep(0.001)
                after = await waiting(client, own_name, 5)
                assert tickets(after) == tickets(before)
                # Then the first waiter is woken immediately
                begun = boottime()
                await holder.release()
                await (await crew[0]).release()
                took.append(boottime() - begun - lag.since(begun))
                for task in crew[1:]:
                    await (await task).release()
            # (two of the wake-ups can be late on a busy machine)
            assert sorted(took)[-3] < 0.5

    play(main)


def tickets(line: LineRecord) -> list[int]:
    """Return the tickets of the waiters."""
    return [one.fence for one in line.waiters]


def ear_of(client: AsyncClient) -> Any:
    """Return the connection on which this client receives its wake-ups."""
    store: Any = client._ctx.store
    return store._port._ear


async def waiting(client: AsyncClient, name: str, number: int) -> LineRecord:
    """Return the line as soon as it has `number` waiters."""
    while True:
        for line in await client.inspect(name, exact=True):
            if len(line.waiters) == number:
                return line
        await asyncio.sleep(0.001)
