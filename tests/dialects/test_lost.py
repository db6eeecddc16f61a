"""Requests that are cut off or late, beyond those of ``test_server_kit.py``."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
import redis

from holdfast import Hold, StoreUnavailable
from holdfast.core.model import Claim, Kind, Leave, Spec, Waiting
from holdfast.dialects.plain.requests import SCRIPTS
from holdfast.runtime.blocking import run_sync
from holdfast.testing.faults import (
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
)
from tests.dialects.conftest import Behind
from tests.torture.scale import times

TRIES = times(300, 5)
_, PROBE, *_ = (script.sha for script in SCRIPTS)
#: The requests with which a lock of timestamps is taken, renewed and released.
JOIN, RENEW, LEAVE = b"SETNX", b"GETSET", b"DEL"


def empty(raw: redis.Redis, key: str, within: float = 10.0) -> None:
    end = time.monotonic() + within
    while raw.exists(key):
        assert time.monotonic() < end, f"{key} is left"
        time.sleep(0.01)


@pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
def test_each_verb_that_is_cut_off_is_repeated_and_returns_the_truth(
    fault: Fault, at: Behind
) -> None:
    proxy, locks = at.proxy, at.warm("timestamp")
    for number in range(TRIES):
        name = f"x{number}"
        believed = fault != RESET_REPLY  # a time doesn't say whose it is
        armed = proxy.arm(JOIN, fault, times=int(believed))
        hold = locks.lock(name, ttl=20).acquire(timeout=5)
        assert isinstance(hold, Hold)
        assert armed.hits == believed
        assert locks.lock(name).acquire(blocking=False) is None
        armed = proxy.arm(RENEW, fault)
        assert extended(hold) > 19
        assert armed.hits == 1
        armed = proxy.arm(LEAVE, fault)
        assert hold.release() is True
        assert armed.hits == 1
        empty(at.raw, at.prefix + name)


def extended(hold: Hold) -> float:
    """Extend the hold. If the renewal was cut off, it is repeated, as the renewer does."""
    try:
        return hold.extend()
    except StoreUnavailable:
        return hold.extend()


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
