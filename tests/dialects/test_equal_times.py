"""Two claims that write the same time: a request without a reply takes nothing from the holder."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncClient, Client, Hold, StoreUnavailable
from holdfast.testing.faults import (
    DROP_REQUEST,
    HOLD_REPLY,
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Proxy,
    delay_reply,
)
from tests.dialects.conftest import Behind

UNITS = pytest.mark.parametrize("unit", ["milliseconds", "seconds"])
TTL = 30.0


def same_time(*clients: Any, unit: str) -> bytes:
    """Make all claims of these clients write the same time; return that time."""
    scale = 1000 if unit == "milliseconds" else 1
    stamp = b"%d" % int((time.time() + TTL) * scale)
    for client in clients:
        client._ctx.store._stamps.new = lambda *_: stamp
    return stamp


def unchanged(at: Behind, hold: Hold, stamp: bytes) -> None:
    """Check that the holder holds, that its time is at the key, and that its release frees it."""
    assert at.raw.get(at.key) == stamp
    hold.check()
    assert hold.extend() > 0
    assert hold.release() is True
    assert at.raw.exists(at.key) == 0


@UNITS
@pytest.mark.parametrize("steps", range(8))
def test_a_cancelled_try_leaves_the_holder_alone(unit: str, steps: int, at: Behind) -> None:
    holder = at.ours("timestamp", unit=unit)

    async def main() -> None:
        async with AsyncClient(at.url("timestamp", unit=unit)) as rival:
            await (await rival.lock("warm").acquire()).release()
            stamp = same_time(holder, rival, unit=unit)
            hold = holder.lock(at.name, ttl=TTL).acquire()
            # Given a rival whose attempt is carried out and not answered yet
            late = at.proxy.arm(b"SETNX", HOLD_REPLY, times=1)
            task = asyncio.create_task(rival.lock(at.name, ttl=TTL).acquire(timeout=5))
            await asyncio.to_thread(late.wait)
            # When the attempt is cancelled
            task.cancel()
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            late.let_go()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.05)
            # Then nothing has changed for the holder
            unchanged(at, hold, stamp)

    asyncio.run(main())


def late_answer(proxy: Proxy, rival: Client, name: str) -> None:
    armed = proxy.arm(b"SETNX", delay_reply(0.4))
    with contextlib.suppress(StoreUnavailable):
        assert rival.lock(name, ttl=TTL).acquire(timeout=0) is None
    armed.wait()
    time.sleep(0.6)


def lost_answer(proxy: Proxy, rival: Client, name: str) -> None:
    armed = proxy.arm(b"SETNX", RESET_REPLY, times=1)
    assert rival.lock(name, ttl=TTL).acquire(timeout=0.5) is None
    assert armed.hits == 1


def lost_request(proxy: Proxy, rival: Client, name: str) -> None:
    armed = proxy.arm(b"SETNX", RESET_REQUEST, times=1)
    assert rival.lock(name, ttl=TTL).acquire(timeout=0.5) is None
    assert armed.hits == 1


@UNITS
@pytest.mark.parametrize("trouble", [late_answer, lost_answer, lost_request])
def test_a_try_without_an_answer_leaves_the_holder_alone(
    unit: str, trouble: Callable[[Proxy, Client, str], None], at: Behind
) -> None:
    holder, rival = at.ours("timestamp", unit=unit), at.warm("timestamp", unit=unit)
    stamp = same_time(holder, rival, unit=unit)
    hold = holder.lock(at.name, ttl=TTL).acquire()
    assert isinstance(hold, Hold)
    trouble(at.proxy, rival, at.name)
    unchanged(at, hold, stamp)


@UNITS
def test_a_try_that_never_arrived_is_not_found_in_the_lock_of_another(
    unit: str, at: Behind
) -> None:
    # Given a free name, and an attempt to acquire it that never reaches the server
    holder, rival = at.ours("timestamp", unit=unit), at.warm("timestamp", unit=unit)
    stamp = same_time(holder, rival, unit=unit)
    lost = at.proxy.arm(b"SETNX", DROP_REQUEST, times=1)
    with pytest.raises(StoreUnavailable):
        rival.lock(at.name, ttl=TTL).acquire(timeout=0)
    assert lost.hits == 1
    # When another client takes the name, and writes the same time
    hold = holder.lock(at.name, ttl=TTL).acquire()
    assert isinstance(hold, Hold)
    # Then only that client holds the name, whatever the rival tries later
    again = at.proxy.arm(b"SETNX", RESET_REQUEST, times=1)
    assert rival.lock(at.name, ttl=TTL).acquire(timeout=0.5) is None
    assert again.hits == 1
    unchanged(at, hold, stamp)


@pytest.mark.parametrize("free", [True, False], ids=["SETNX", "GETSET"])
def test_a_take_whose_answer_was_lost_is_not_believed(free: bool, at: Behind) -> None:
    # Given a name that was taken by an unknown client, because the reply was lost
    locks = at.warm("timestamp")
    if not free:
        at.raw.set(at.key, int((time.time() - 1) * 1000))
    at.proxy.arm(b"SETNX" if free else b"GETSET", RESET_REPLY)
    begun = time.monotonic()
    hold = locks.lock(at.name, ttl=3.0, auto_renew=False).acquire(timeout=20)
    # Then the time at the key has to pass first
    assert hold is not None
    assert time.monotonic() - begun > 2.8
    assert hold.release() is True


def test_a_cancelled_take_over_restores_the_replaced_time(at: Behind) -> None:
    raw, key = at.raw, at.key
    theirs = b"%d" % int((time.time() + 50) * 1000)

    async def main() -> None:
        async with AsyncClient(at.url("timestamp")) as rival:
            await (await rival.lock("warm").acquire()).release()
            # Given a stale key, and a rival that is about to replace it
            raw.set(key, int((time.time() - 1) * 1000))
            held = at.proxy.arm(b"GETSET", HOLD_REQUEST, times=1)
            task = asyncio.create_task(rival.lock(at.name).acquire(timeout=5))
            await asyncio.to_thread(held.wait)
            # When another client replaces the key first, and the rival is cancelled
            raw.set(key, theirs)
            task.cancel()
            await asyncio.sleep(0)
            held.let_go()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    # Then the key has the time of that client again
    assert raw.get(key) == theirs
