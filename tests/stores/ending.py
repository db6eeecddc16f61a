"""A given-up connection counts against the pool until the server has ended its session.

The URLs are those of a client with ``pool=1`` behind a proxy that no other client uses.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.runtime.blocking import Turn
from holdfast.runtime.ending import blocking as ending
from holdfast.testing.faces import Face
from holdfast.testing.faults import HOLD_REQUEST, Fault, Proxy, Strike
from tests.servers.process import until

LONG_S = 60.0
#: The methods of a pool that get a connection and return it.
WAY = ("_reach", "_new", "_lend", "_give")
#: The function in which a thread takes its turn, and a lower bound of the points in it at which
#: Ctrl-C can come.
TURN, TURNS = f"{Turn.__module__}:{Turn.take.__qualname__}", 1


def a_session_counts_until_its_end(
    face: Face,
    proxy: Proxy,
    url: str,
    name: str,
    goodbye: tuple[bytes, Fault],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that a given-up session counts until the server has ended it.

    ``goodbye``: a fault that keeps the server from seeing the client's end of a connection.
    """
    monkeypatch.setattr(ending, "ENDS_S", LONG_S)

    async def main() -> None:
        async with face.client(url) as client:
            held = await client.lock(f"{name}:held", ttl=60).acquire()
            ends = proxy.arm(*goodbye, 100)

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


def one_that_was_never_made_counts(
    face: Face,
    proxy: Proxy,
    url: str,
    name: str,
    begins: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that a session which is still being made counts, too.

    ``begins``: a part of the first message of a client.
    """
    monkeypatch.setattr(ending, "ENDS_S", LONG_S)

    async def main() -> None:
        async with face.client(url) as client:
            # Given a server that accepts connections slowly
            begin = proxy.arm(begins, HOLD_REQUEST, 100)
            # When a client with little time tries again and again
            for _ in range(5):
                with pytest.raises(StoreUnavailable):
                    await client.lock(name).acquire(timeout=0)
            # Then the server has only one connection to accept
            assert proxy.connections == 1
            begin.let_go()
            async with client.lock(name, timeout=20):
                pass

    face.run(main, LONG_S)


def no_interrupt_keeps_a_place(url: str, name: str, method: Any) -> None:
    """Interrupt ``method`` at each of its points; check that the pool loses no place.

    ``method``: one of the methods that get a connection or return it.
    """
    function = f"{method.__module__}:{method.__qualname__}"
    # If a verb has little time, a thread makes the connection
    for timeout in (0, LONG_S):
        for number in itertools.count(1):
            strike = Strike(number, function=function)
            one = f"{name}:{timeout}:{number}"
            with Client(url) as client:
                with contextlib.suppress(KeyboardInterrupt, StoreUnavailable), strike:
                    client.lock(one).acquire(timeout=timeout).release()
                with client.lock(name, timeout=20):
                    pass
            if not strike.where:
                break
    assert number > 1
