"""Requests and replies that are lost, late or cut off: each answer is true, and no key is left."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from holdfast import AsyncClient, Hold, StoreUnavailable
from holdfast.core.model import Claim, Kind, Leave, Spec, Waiting
from holdfast.dialects.plain.requests import SCRIPTS
from holdfast.runtime.blocking import run_sync
from holdfast.testing.faults import (
    DROP_REPLY,
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
    dice,
)
from tests.dialects.conftest import Behind
from tests.torture.scale import times

TRIES = times(300, 5)
CREW, ROUNDS = 20, times(50, 4)
JOIN, PROBE, RENEW, LEAVE, _ = (script.sha for script in SCRIPTS)
RESETS = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
#: The requests with which each dialect takes, renews and releases a lock.
VERBS = {
    "plain": (JOIN, RENEW, LEAVE),
    "timestamp": (b"SETNX", b"GETSET", b"DEL"),
}
DIALECTS = pytest.mark.parametrize("dialect", VERBS)


def empty(raw: redis.Redis, key: str, within: float = 10.0) -> None:
    end = time.monotonic() + within
    while raw.exists(key):
        assert time.monotonic() < end, f"{key} is left"
        time.sleep(0.01)


@DIALECTS
@RESETS
def test_each_verb_that_is_cut_off_is_repeated_and_returns_the_truth(
    dialect: str, fault: Fault, at: Behind
) -> None:
    join, renew, leave = VERBS[dialect]
    proxy, locks = at.proxy, at.warm(dialect)
    for number in range(TRIES):
        name = f"x{number}"
        believed = (dialect, fault) != ("timestamp", RESET_REPLY)  # a time doesn't say whose it is
        armed = proxy.arm(join, fault, times=int(believed))
        hold = locks.lock(name, ttl=20).acquire(timeout=5)
        assert isinstance(hold, Hold)
        assert armed.hits == believed
        assert locks.lock(name).acquire(blocking=False) is None
        armed = proxy.arm(renew, fault)
        assert extended(hold) > 19
        assert armed.hits == 1
        armed = proxy.arm(leave, fault)
        assert hold.release() is True
        assert armed.hits == 1
        empty(at.raw, at.prefix + name)


def extended(hold: Hold) -> float:
    """Extend the hold. If the renewal was cut off, it is repeated, as the renewer does."""
    try:
        return hold.extend()
    except StoreUnavailable:
        return hold.extend()


def test_a_late_copy_of_a_join_finds_that_its_claim_has_left(at: Behind) -> None:
    proxy, raw, key = at.proxy, at.raw, at.key
    locks = at.warm("plain")
    # Given a join that the server has carried out, and whose reply is lost
    lost = proxy.arm(JOIN, DROP_REPLY, times=100)
    with pytest.raises(StoreUnavailable):
        locks.lock(at.name, ttl=5).acquire(timeout=0.3)
    empty(raw, key)
    lost.disarm()
    # Given a claim whose request is under way, and whose client has given up
    held = proxy.arm(JOIN, HOLD_REQUEST, times=1)
    with pytest.raises(StoreUnavailable):  # it wasn't answered, which isn't called busy
        locks.lock(at.name, ttl=20).acquire(timeout=0.3)
    # When the request arrives, it takes nothing
    held.wait()
    held.let_go()
    takes_nothing(raw, key)
    assert at.ours().lock(at.name).acquire(blocking=False) is not None


def test_a_late_copy_of_a_waiters_request_takes_nothing(at: Behind) -> None:
    # Given a waiting claim: one of its attempts is under way, and a later one was answered
    proxy, raw, key = at.proxy, at.raw, at.key
    store: Any = at.ours("plain", proxy.port)._ctx.store
    raw.set(key, "theirs", px=30_000)
    claim = Claim("0a" * 16, Spec(at.name, Kind.LOCK, 1, 1, 20.0, "ours"))
    waiting = run_sync(store.join(claim, True, 5.0))
    assert isinstance(waiting, Waiting)
    held = proxy.arm(PROBE, HOLD_REQUEST, times=1)
    for _ in range(2):
        store._waits[claim.id].left = 0.0  # it is due
        with contextlib.suppress(StoreUnavailable):
            run_sync(store.turn(claim, 0, 0.3))
    held.wait()
    # When the waiter leaves as if all its replies had arrived, and the attempt arrives after that
    store.unlisten(claim)
    assert run_sync(store.leave(Leave(at.name, claim.id, 0), 5.0)) is False
    raw.delete(key)
    held.let_go()
    # Then the attempt takes nothing
    takes_nothing(raw, key)


def takes_nothing(raw: redis.Redis, key: str) -> None:
    for _ in range(20):
        time.sleep(0.01)
        assert raw.get(key) is None


Work = Callable[[AsyncClient, str], object]


async def enters(locks: AsyncClient, name: str) -> None:
    async with locks.lock(name, ttl=60):
        raise AssertionError("the body runs although its task was cancelled")


async def waits(locks: AsyncClient, name: str) -> None:
    await locks.lock(name, ttl=60).acquire(timeout=30)


@DIALECTS
@pytest.mark.parametrize("work", [enters, waits])
def test_a_task_that_is_cancelled_while_its_answer_is_under_way_leaves_nothing(
    dialect: str, work: Work, at: Behind
) -> None:
    chance, proxy = dice("cancelled at the reply"), at.proxy

    async def main() -> None:
        async with AsyncClient(at.url(dialect)) as locks:
            async with locks.lock("warm"):
                pass
            for number in range(ROUNDS):
                await strike(locks, f"{number}:")

    async def strike(locks: AsyncClient, start: str) -> None:
        proxy.hold("reply")
        crew = [asyncio.ensure_future(work(locks, f"{start}{nth}")) for nth in range(CREW)]  # type: ignore[arg-type,var-annotated]
        wire = locks._ctx.store._port._wire  # type: ignore[attr-defined]
        while wire.under_way < CREW:
            await asyncio.sleep(0)
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
        for task in crew:
            task.cancel()
            if chance.random() < 0.3:
                await asyncio.sleep(0)
                task.cancel()
        proxy.heal()
        await asyncio.wait(crew)
        assert all(task.cancelled() for task in crew)

    asyncio.run(main())
    for key in at.raw.scan_iter(f"{at.prefix}*"):
        empty(at.raw, key.decode())
