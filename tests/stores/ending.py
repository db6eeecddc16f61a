"""A given-up connection counts against the pool until the server has ended its session.

The tests of a store import these. It has the fixtures ``bench`` and ``hasty``, by which a client
gives up a connection soon. No other client uses the proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.runtime.blocking import Turn
from holdfast.runtime.ending import blocking as ending
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import HOLD_REQUEST, Proxy, Strike
from tests.servers.process import until
from tests.stores.sql.bench import Bench

LONG_S = 60.0
#: The methods of a pool that get a connection and return it.
WAY = ("_reach", "_new", "_lend", "_give")
#: The function in which a thread takes its turn, and a lower bound of the points in it at which
#: Ctrl-C can come.
TURN, TURNS = f"{Turn.__module__}:{Turn.take.__qualname__}", 1
EACH = pytest.mark.parametrize("face", FACES.values(), ids=FACES)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients wait long for the server to end a session."""
    monkeypatch.setattr(ending, "ENDS_S", LONG_S)


@pytest.fixture
def deaf() -> None:
    """Clients wait long for the server to cancel a request, too; a store replaces this fixture."""


@EACH
@pytest.mark.usefixtures("patient", "deaf")
def test_a_session_that_the_server_has_not_ended_counts(
    face: Face, bench: Bench, proxy: Proxy, own_name: str
) -> None:
    name = own_name

    async def main() -> None:
        async with face.client(bench.proxied(proxy, "pool=1")) as client:
            held = await client.lock(f"{name}:held", ttl=60).acquire()
            ends = proxy.arm(*bench.goodbye, 100)

            async def give_up(sessions: int) -> None:
                while ends.hits < sessions:
                    proxy.hold("reply")
                    with pytest.raises(StoreUnavailable):
                        await client.lock(f"{name}:first").acquire(timeout=0)
                    proxy.heal()
                    await face.sleep(0.1)

            # Given a request that was given up and then answered, whose session hasn't ended
            await give_up(1)
            # When another request needs a connection
            with pytest.raises(StoreUnavailable, match=r"given up|in use"):
                await client.lock(f"{name}:second").acquire(blocking=False)
            # Then no other session was made
            assert proxy.connections == 1
            # But a renewal and a release get a session, even after a second one was given up
            await held.extend()
            await give_up(2)
            assert await held.release()
            # When the sessions have ended
            ends.let_go()
            async with client.lock(f"{name}:second", timeout=20):
                pass

    face.run(main, LONG_S)
    until(lambda: not proxy.connections, "all sessions have ended")


@EACH
@pytest.mark.usefixtures("patient")
def test_a_connection_that_was_never_made_counts_until_the_server_has_ended_it(
    face: Face, bench: Bench, proxy: Proxy, own_name: str, hasty: str
) -> None:
    async def main() -> None:
        async with face.client(bench.proxied(proxy, f"pool=1{hasty}")) as client:
            # Given a server that accepts connections slowly
            begin = proxy.arm(bench.begins, HOLD_REQUEST, 100)
            # When a client with little time tries again and again
            for _ in range(5):
                with pytest.raises(StoreUnavailable):
                    await client.lock(own_name).acquire(timeout=0)
            # Then the server has only one connection to accept
            assert proxy.connections == 1
            begin.let_go()
            async with client.lock(own_name, timeout=20):
                pass

    face.run(main, LONG_S)


def test_a_connection_that_was_being_made_as_its_loop_was_closed_is_closed(
    bench: Bench, proxy: Proxy, own_name: str
) -> None:
    loop = asyncio.new_event_loop()
    begin = proxy.arm(bench.begins, HOLD_REQUEST, 100)

    async def main() -> None:
        asked = asyncio.ensure_future(AsyncClient(bench.proxied(proxy)).inspect(own_name))
        while not begin.hits:
            await asyncio.sleep(0.005)
        assert not asked.done()

    # Given a connection that is being made as its event loop is closed
    loop.run_until_complete(main())
    loop.close()
    # When Python destroys the tasks of the loop
    gc.collect()
    begin.let_go()
    # Then the server sees that the connection has ended
    until(lambda: not proxy.connections, "the connection is closed")


@pytest.mark.parametrize("method", WAY)
def test_an_interrupt_on_the_way_to_a_connection_or_back_keeps_no_place(
    bench: Bench, url: str, own_name: str, method: str
) -> None:
    way = getattr(bench.pool, method)
    function = f"{way.__module__}:{way.__qualname__}"
    # If a verb has little time, a thread makes the connection
    for timeout in (0, LONG_S):
        for number in itertools.count(1):
            strike = Strike(number, function=function)
            with Client(f"{url}?pool=1") as client:
                with contextlib.suppress(KeyboardInterrupt, StoreUnavailable), strike:
                    one = client.lock(f"{own_name}:{timeout}:{number}")
                    one.acquire(timeout=timeout).release()
                with client.lock(own_name, timeout=20):
                    pass
            if not strike.where:
                break
    assert number > 1
