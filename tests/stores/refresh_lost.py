"""Requests and replies of refresh guards that are cut off; see ``tests/stores/queue_lost.py``."""

from __future__ import annotations

import pytest

from holdfast import Client
from holdfast.testing.faults import Fault, Proxy
from tests.stores.queue_lost import RESETS, Word
from tests.torture.scale import times

TRIES = times(50, 2)


def _fail() -> str:
    raise LookupError("no value")


@RESETS
def test_each_verb_of_a_guard_that_is_cut_off_counts_once(
    fault: Fault, word: Word, by_proxy: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    calls = 0

    def compute() -> int:
        nonlocal calls
        calls += 1
        return calls

    guard, other = by_proxy.guard(own_name, ttl=60), locks.guard(own_name, ttl=60)
    for number in range(1, TRIES + 1):
        verbs = ("refresh_read", "refresh_begin", "refresh_finish")
        hits = [proxy.arm(word(verb), fault) for verb in verbs]
        assert guard.get(compute) == number
        assert other.get(compute) == number
        assert other.inspect().owner == ""
        hits.append(proxy.arm(word("refresh_invalidate"), fault))
        # The value is gone; the count of a repeated invalidation can be 0
        assert guard.invalidate() in (0, 1)
        assert other.inspect().version == 0
        assert [one.hits for one in hits] == [1, 1, 1, 1]
    assert calls == TRIES
    assert guard.stats().refused == 0


@RESETS
def test_a_failed_computation_leaves_no_refresh_lease_though_cut_off(
    fault: Fault, word: Word, by_proxy: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    guard = by_proxy.guard(own_name, ttl=60, lease=60)
    for _ in range(TRIES):
        armed = proxy.arm(word("refresh_abandon"), fault)
        with pytest.raises(LookupError):
            guard.get(_fail)
        # The renewer withdraws it long before its lease ends
        assert locks.guard(own_name, ttl=60).get(lambda: "next", timeout=20) == "next"
        # The abandon waits for one second at most, and the machine can stall for that time
        armed.wait()
        assert guard.invalidate() == 1
