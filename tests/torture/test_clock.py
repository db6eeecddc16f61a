"""Answers that come late: a lease counts from the sending, whatever its answer took."""

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

lag.watch()

TTL_S = 1.7
#: Of a lease that must not end, whatever the machine does meanwhile.
LONG_S = 15.0
LATE_S = 0.6


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Losses are logged as errors; here they are what is asked for."""
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("holdfast").setLevel(logging.NOTSET)


def late(verb: str, seconds: float, when: str = "after", times: int = 1) -> Hook:
    """A hook that keeps the answers to a verb back."""
    left = [times]

    def hook(step: Step) -> None:
        if step == (verb, when) and left[0]:
            left[0] -= 1
            time.sleep(seconds)

    return hook


def test_a_lease_counts_from_before_its_join_was_sent(url: str) -> None:
    with Client(url) as client:
        # Given a join whose answer takes a part of the ttl
        with aim(client, late("join", LATE_S)):
            hold = client.lock("x", ttl=LONG_S, auto_renew=False).acquire()
        # Then that part of the lease is over
        assert hold.remaining() <= LONG_S - LATE_S
        # And if it takes all of it, nothing is returned that is over: it is asked for anew
        with aim(client, late("join", TTL_S)):
            begun = time.monotonic()
            other = client.lock("y", ttl=TTL_S, auto_renew=False).acquire()
            assert time.monotonic() - begun >= TTL_S
            assert other.remaining() > TTL_S / 2
            other.check()


def test_a_renewed_lease_counts_from_before_its_keep_was_sent(url: str) -> None:
    with Client(url) as client:
        hold = client.lock("x", ttl=LONG_S, auto_renew=False).acquire()
        with aim(client, late("keep", LATE_S)):
            assert hold.extend() <= LONG_S - LATE_S
        hold = client.lock("y", ttl=TTL_S, auto_renew=False).acquire()
        with aim(client, late("keep", TTL_S)), pytest.raises(LockLost):
            hold.extend()
        # And what was seen as lost stays lost, though the store has renewed it
        assert hold.lost is Loss.EXPIRED


def test_late_replies_to_renewals_restore_no_hold(url: str) -> None:
    client, other = Client(url), Client(url)
    # Given renewals whose answers all come after the ttl
    with client, other, aim(client, late("keep", TTL_S * 1.2, times=100)):
        hold = client.lock("x", ttl=TTL_S).acquire()
        assert hold.wait_lost(timeout=3 * TTL_S) is Loss.EXPIRED
        # Then it stays lost, and the name passes on
        with pytest.raises(LockLost):
            hold.check()
        with other.lock("x", timeout=5):
            assert hold.remaining() == 0


@pytest.mark.parametrize("when", ["before", "sent", "after"])
def test_under_asyncio_too(when: str, url: str) -> None:
    async def main() -> None:
        async with AsyncClient(url) as client:
            with aim(client, late("join", LATE_S, when)):
                hold = await client.lock("x", ttl=LONG_S, auto_renew=False).acquire()
            assert hold.remaining() <= LONG_S - LATE_S

    asyncio.run(main())


def test_a_hold_granted_by_a_push_lasts_for_the_rest_of_the_waiter_ttl(url: str) -> None:
    # Given a waiter who last heard of the store when it joined, and is pushed then
    with Client(url) as client, Client(url) as other:
        client.lock("warm").acquire().release()
        store: Any = client._ctx.store
        # (of a patience that lasts though the machine stands still, half of which is relied on)
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
        # Then its lease is what the join has given it: the patience, from when that was sent
        now = boottime()
        assert mine.remaining() <= patience - (now - seen[0])
        mine.check()


def test_a_store_that_is_away_is_not_called_busy(url: str) -> None:
    def away(step: Step) -> None:
        if step.when == "after":
            raise StoreUnavailable("the reply was lost, on purpose")

    with Client(url) as client, Client(url) as other:
        # Given replies that are all lost
        with aim(client, away):
            begun = boottime()
            with pytest.raises(StoreUnavailable):
                client.lock("x").acquire(timeout=0.3)
            assert boottime() - begun < 0.55 + lag.since(begun)
        # Then the claim that was entered is withdrawn as soon as the store answers again
        end = time.monotonic() + 10.0
        while other.inspect():
            assert time.monotonic() < end
            time.sleep(0.01)
