"""Requests and replies of refresh guards that are lost, late or cut off."""

from __future__ import annotations

import pytest

from holdfast import Client
from holdfast.core.guard.model import Abandon, Duty
from holdfast.runtime.blocking import run_sync
from holdfast.testing.faults import HOLD_REQUEST, Fault, Proxy
from tests.servers.process import until
from tests.stores.lost import RESETS
from tests.stores.sql.bench import Bench
from tests.stores.sql.refresh import begin, guards_of, wish
from tests.torture.scale import times

TRIES = times(50, 2)


def fail() -> str:
    raise LookupError("no value")


@RESETS
def test_each_verb_that_is_cut_off_counts_once(
    fault: Fault, bench: Bench, by_proxy: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    calls = 0

    def compute() -> int:
        nonlocal calls
        calls += 1
        return calls

    guard, other = by_proxy.guard(own_name, ttl=60), locks.guard(own_name, ttl=60)
    for number in range(1, TRIES + 1):
        verbs = ("refresh_read", "refresh_begin", "refresh_finish")
        hits = [proxy.arm(bench.word(verb), fault) for verb in verbs]
        assert guard.get(compute) == number
        assert other.get(compute) == number
        hits.append(proxy.arm(bench.word("refresh_invalidate"), fault))
        # The value is gone; the count of a repeated invalidation can be 0
        assert guard.invalidate() in (0, 1)
        assert other.inspect().version == 0
        assert [one.hits for one in hits] == [1, 1, 1, 1]
    assert calls == TRIES
    assert guard.stats().refused == 0


@RESETS
def test_a_failed_computation_leaves_no_refresh_lease_though_cut_off(
    fault: Fault, bench: Bench, by_proxy: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    guard = by_proxy.guard(own_name, ttl=60, lease=60)
    for _ in range(TRIES):
        armed = proxy.arm(bench.word("refresh_abandon"), fault)
        with pytest.raises(LookupError):
            guard.get(fail)
        assert armed.hits == 1
        # The renewer withdraws it long before its lease ends
        assert locks.guard(own_name, ttl=60).get(lambda: "next", timeout=20) == "next"
        assert guard.invalidate() == 1


def test_a_request_abandoned_on_its_way_gets_no_refresh_lease(
    bench: Bench, by_proxy: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    def connections() -> int:
        by_proxy.inspect("nobody", exact=True)  # closes the given-up ones that got a reply
        return proxy.connections

    guards = guards_of(by_proxy)
    for number in range(TRIES):
        mine = wish(own_name, f"{number}")
        late = proxy.arm(bench.word("refresh_begin"), HOLD_REQUEST)
        with pytest.raises(Exception, match="gave no answer"):
            run_sync(guards.begin(mine, 0.1))
        given_up = Abandon(mine.entry, mine.id, 1.0, suspect=True)
        assert run_sync(guards.abandon(given_up, 10.0)) is False
        assert not isinstance(begin(locks, mine), Duty)  # nor has a copy of it
        late.let_go()
        until(lambda: connections() <= 2, "its connection has ended")
        assert isinstance(begin(locks, wish(own_name, f"{number}")), Duty)
