"""Connections that break, stall or mix up replies: no claim ever gets a wrong answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.core.model import LineRecord
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.library import JOIN, KEEP, LEAVE
from holdfast.testing import lag
from holdfast.testing.faults import (
    DROP_PUSH,
    DROP_REPLY,
    DROP_REQUEST,
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
    Proxy,
)
from holdfast.testing.faults.wire import resp
from tests.servers.redis_server import RedisServer
from tests.stores.redis.aio.conftest import Open, play, wire_of
from tests.stores.redis.conftest import eventually
from tests.torture.scale import times

lag.watch()

SEED = random.SystemRandom().randrange(1 << 32)
Look = Callable[[str], None]
TRIES = times(300, 15)


@pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
def test_whatever_is_cut_off_is_done_once(
    fault: Fault, behind: Open, proxy: Proxy, own_name: str, other: Client, nothing_left: Look
) -> None:
    async def main() -> None:
        async with behind() as client:
            for number in range(TRIES):
                name = f"{own_name}:{number}"
                # Given a join and a release that are both cut off
                joins = proxy.arm(JOIN.sha, fault)
                # When
                hold = await client.lock(name).acquire(timeout=5)
                assert hold is not None
                # Then the claim is in the line once, and the release returns the truth
                (line,) = other.inspect(name, exact=True)
                assert [claim.fence for claim in line.claims] == [hold.fence]
                leaves = proxy.arm(LEAVE.sha, fault)
                assert await hold.release()
                assert (joins.hits, leaves.hits) == (1, 1)
        nothing_left(own_name)

    play(main)


def test_a_renewal_that_is_cut_off_costs_no_hold(behind: Open, proxy: Proxy, own_name: str) -> None:
    async def main() -> None:
        async with behind() as client, client.lock(own_name, ttl=4.5) as hold:
            for fault in (RESET_REQUEST, RESET_REPLY, RESET_REPLY):
                armed = proxy.arm(KEEP.sha, fault)
                await asyncio.to_thread(armed.wait)
                while hold.remaining() < 3.0:
                    hold.check()
                    await asyncio.sleep(0.01)

    play(main)


@pytest.mark.usual(3)
@pytest.mark.parametrize("fault", [DROP_REQUEST, DROP_REPLY], ids=["request", "reply"])
@pytest.mark.parametrize("script", [JOIN, LEAVE], ids=["join", "leave"])
def test_what_is_lost_among_others_is_noticed_by_the_next_reply(
    fault: Fault,
    script: object,
    behind: Open,
    proxy: Proxy,
    own_name: str,
    other: Client,
    nothing_left: Look,
) -> None:
    async def main() -> None:
        async with behind() as client:
            for number in range(10):
                names = [f"{own_name}:{number}:{at}" for at in range(20)]
                # Given many requests on one connection, one of them without a reply: the replies to
                # later requests then come in place of the missing one
                armed = proxy.arm(script.sha, fault)  # type: ignore[attr-defined]
                holds = await asyncio.gather(*[client.lock(one).acquire() for one in names])
                # Then no claim takes the reply of another for its own
                for name, hold in zip(names, holds, strict=True):
                    (line,) = other.inspect(name, exact=True)
                    assert [claim.fence for claim in line.holders] == [hold.fence]
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
    crew: int, shared_redis: RedisServer, own_name: str, other: Client, nothing_left: Look
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
                for name, hold in zip(names, holds, strict=True):
                    (line,) = other.inspect(name, exact=True)
                    assert [claim.fence for claim in line.holders] == [hold.fence]
                assert all(await asyncio.gather(*[hold.release() for hold in holds]))
                # And the client has a new connection
                assert wire.over
                assert wire_of(client) is not wire
        nothing_left(own_name)

    play(main)


def test_a_late_copy_of_a_join_finds_a_tombstone(
    behind: Open, proxy: Proxy, own_name: str, shared_redis: RedisServer, nothing_left: Look
) -> None:
    async def main() -> None:
        async with behind() as client:
            for number in range(times(300, 30)):
                # Given a join that is on its way when its connection is dropped
                armed = proxy.arm(JOIN.sha, HOLD_REQUEST)
                task = asyncio.create_task(client.lock(f"{own_name}:{number}").acquire())
                await asyncio.to_thread(armed.wait)
                wire_of(client).drop("the test")
                # And a repetition of the join that is granted and released
                assert await (await task).release()
                # When the first copy arrives at last
                before = shared_redis.calls()["evalsha"]
                armed.let_go()
                await asyncio.to_thread(
                    eventually,
                    lambda was=before: shared_redis.calls()["evalsha"] > was,
                )
        # Then it enters no line
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


@pytest.mark.parametrize("how", ["blackhole", "refuse"])
@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
def test_a_server_that_is_silent_is_not_busy(
    how: str, warm: bool, behind: Open, proxy: Proxy, own_name: str
) -> None:
    async def main() -> None:
        async with AsyncClient(f"redis://127.0.0.1:{proxy.port}") as client:
            if warm:
                async with client.lock(own_name):
                    pass
            getattr(proxy, how)()
            begun = boottime()
            with pytest.raises(StoreUnavailable):
                await client.lock(own_name).acquire(timeout=1)
            took, late = boottime() - begun, lag.since(begun)
            proxy.heal()
            assert took <= 3.0 + late
            # And when the server is back, the client works
            async with client.lock(own_name, timeout=10):
                pass

    play(main)


@pytest.mark.usual(1)
def test_many_behind_a_server_that_stalls_all_get_through(
    behind: Open, shared_redis: RedisServer, own_name: str, nothing_left: Look
) -> None:
    async def main() -> None:
        async with behind() as client:

            async def work(at: int) -> None:
                for _ in range(20):
                    async with client.lock(f"{own_name}:{at % 50}"):
                        await asyncio.sleep(0)

            crew = asyncio.gather(*[work(at) for at in range(200)])
            for _ in range(5):
                await asyncio.sleep(0.05)
                await asyncio.to_thread(shared_redis.ask, "CLIENT", "PAUSE", "100", "ALL")
            await crew
        nothing_left(own_name)

    play(main)
