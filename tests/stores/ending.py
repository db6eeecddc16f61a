"""A connection that was given up counts as one of the pool until the server has ended it, too.

The URLs are of a client with ``pool=1`` behind a proxy, through which nobody else connects.
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
#: The methods of a pool that lead to a connection and back.
WAY = ("_reach", "_new", "_lend", "_give")
#: Where a thread takes its turn, and fewer points than Ctrl-C has there.
TURN, TURNS = f"{Turn.__module__}:{Turn.take.__qualname__}", 1


def a_session_counts_until_its_end(
    face: Face,
    proxy: Proxy,
    url: str,
    name: str,
    goodbye: tuple[bytes, Fault],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``goodbye``: what keeps the server from seeing that the client has ended a connection."""
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
            # When somebody wants something
            with pytest.raises(StoreUnavailable, match=r"given up|in use"):
                await client.lock(f"{name}:second").acquire(blocking=False)
            # Then no other session was made
            assert proxy.connections == 1
            # But for those who renew and release, however many there are
            await held.extend()
            await give_up(2)
            assert await held.release()
            # When the session has ended
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
    """``begins``: a part of what a client says first."""
    monkeypatch.setattr(ending, "ENDS_S", LONG_S)

    async def main() -> None:
        async with face.client(url) as client:
            # Given a server that is slow to take connections
            begin = proxy.arm(begins, HOLD_REQUEST, 100)
            # When somebody with little time tries again and again
            for _ in range(5):
                with pytest.raises(StoreUnavailable):
                    await client.lock(name).acquire(timeout=0)
            # Then the server has one to take
            assert proxy.connections == 1
            begin.let_go()
            async with client.lock(name, timeout=20):
                pass

    face.run(main, LONG_S)


def no_interrupt_keeps_a_place(url: str, name: str, method: Any) -> None:
    """``method``: a part of the way to a connection, or back."""
    function = f"{method.__module__}:{method.__qualname__}"
    # Where a verb has little time, a thread makes the connection
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
