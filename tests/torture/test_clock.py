"""Late replies: a lease counts from the sending of its request, whatever time the reply takes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import AsyncClient, Client, LockLost, Loss, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Hook, Step, aim
from tests.servers.process import until

lag.watch()

TTL_S = 1.7
#: Seconds of a lease that must not expire, even if the machine pauses.
LONG_S = 15.0
LATE_S = 0.6


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Silence the log, because holdfast logs losses as errors, and these tests cause them."""
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("holdfast").setLevel(logging.NOTSET)


def late(verb: str, seconds: float, when: str = "after") -> Hook:
    """Return a hook that delays one reply to a verb."""
    left = [True]

    def hook(step: Step) -> None:
        if step == (verb, when) and left:
            left.pop()
            time.sleep(seconds)

    return hook


def test_a_lease_counts_from_before_its_join_was_sent(url: str) -> None:
    with Client(url) as client:
        # Given a join whose reply takes a part of the ttl, then that part of the lease has passed
        with aim(client, late("join", LATE_S)):
            hold = client.lock("x", ttl=LONG_S, auto_renew=False).acquire()
        assert hold.remaining() <= LONG_S - LATE_S
        # And if the reply takes the whole ttl, no expired hold is returned: the lock is requested
        # again
        with aim(client, late("join", TTL_S)):
            begun = time.monotonic()
            other = client.lock("y", ttl=TTL_S, auto_renew=False).acquire()
            assert time.monotonic() - begun >= TTL_S
            assert other.remaining() > TTL_S / 2
            other.check()


@pytest.mark.parametrize("when", ["before", "sent", "after"])
def test_under_asyncio_too(when: str, url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:
            with aim(client, late("join", LATE_S, when)):
                hold = await client.lock("x", ttl=LONG_S, auto_renew=False).acquire()
            assert hold.remaining() <= LONG_S - LATE_S

    asyncio.run(main())


def test_a_renewed_lease_counts_from_before_its_renewal_was_sent(url: str) -> None:
    with Client(url) as client:
        hold = client.lock("x", ttl=LONG_S, auto_renew=False).acquire()
        with aim(client, late("renew", LATE_S)):
            assert hold.extend() <= LONG_S - LATE_S
        hold = client.lock("y", ttl=TTL_S, auto_renew=False).acquire()
        with aim(client, late("renew", TTL_S)), pytest.raises(LockLost):
            hold.extend()
        # And a hold that was seen as lost stays lost, although the store has renewed it
        assert hold.lost is Loss.EXPIRED


def test_a_hold_granted_by_a_push_lasts_for_the_rest_of_the_waiter_ttl(url: str) -> None:
    # Given a waiter whose last reply was that of its join, and that is then woken by a grant
    with Client(url) as client, Client(url) as other:
        client.lock("warm").acquire().release()
        store: Any = client._ctx.store
        # (The waiter TTL is long, because only half of it can be used, and the machine can pause.)
        engine = store._port.engine
        store.patience = engine.patience = engine._lines.patience = patience = 10.0
        hold = other.lock("x").acquire()
        seen: list[float] = []

        def release(step: Step) -> None:
            seen.append(boottime())  # the first: just after the time that the join counts from
            if step == ("wait", "before"):
                time.sleep(LATE_S)
                hold.release()

        with aim(client, release):
            mine = client.lock("x", ttl=30.0).acquire()
        # Then its lease is the waiter TTL, counted from the sending of the join
        now = boottime()
        assert mine.remaining() <= patience - (now - seen[0])
        mine.check()


def test_a_store_that_is_away_is_not_called_busy(url: str) -> None:
    def away(step: Step) -> None:
        if step.when == "after":
            raise StoreUnavailable("the reply was lost, on purpose")

    with Client(url) as client, Client(url) as other:
        with aim(client, away):
            begun = boottime()
            with pytest.raises(StoreUnavailable):
                client.lock("x").acquire(timeout=0.3)
            assert boottime() - begun < 0.55 + lag.since(begun)
        until(lambda: not other.inspect(), "the claim is withdrawn")
