"""Requests and replies of refresh guards that are lost, late or cut off."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Client
from holdfast.core.guard.model import Abandon, Duty, Entry
from holdfast.runtime.blocking import run_sync
from holdfast.testing.faults import HOLD_REQUEST, RESET_REPLY, RESET_REQUEST, Fault, Proxy
from tests.servers.process import until
from tests.stores.postgres.conftest import proxied
from tests.stores.postgres.test_refresh import begin, guards_of, wish
from tests.torture.scale import times

MakeClient = Callable[..., Client]
BOTH = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
TRIES = times(50, 2)
#: Each request contains the name of its prepared statement.
READ, BEGIN, FINISH, ABANDON, INVALIDATE = (
    f"holdfast_refresh_{verb}\0".encode()
    for verb in ("read", "begin", "finish", "abandon", "invalidate")
)


def fail() -> str:
    raise LookupError("in vain")


@pytest.fixture
def client(proxy: Proxy, new_client: MakeClient, own_name: str) -> Client:
    """A client behind the proxy that has already sent the verbs."""
    found = new_client(proxied(proxy))
    guard = found.guard(f"{own_name}:warm", ttl=60)
    assert guard.get(lambda: 1) == 1
    with pytest.raises(LookupError):
        guard.get(fail, key="b")
    guard.invalidate()
    return found


@BOTH
def test_each_verb_that_is_cut_off_counts_once(
    fault: Fault, client: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    calls = 0

    def compute() -> int:
        nonlocal calls
        calls += 1
        return calls

    guard, other = client.guard(own_name, ttl=60), locks.guard(own_name, ttl=60)
    for number in range(1, TRIES + 1):
        hits = [proxy.arm(verb, fault) for verb in (READ, BEGIN, FINISH)]
        assert guard.get(compute) == number
        assert other.get(compute) == number
        hits.append(proxy.arm(INVALIDATE, fault))
        # The value is gone; the count of a repeated invalidation can be 0
        assert guard.invalidate() in (0, 1)
        assert other.inspect().version == 0
        assert [one.hits for one in hits] == [1, 1, 1, 1]
    assert calls == TRIES
    assert guard.stats().refused == 0


@BOTH
def test_a_failed_computation_leaves_no_refresh_lease_though_cut_off(
    fault: Fault, client: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    guard = client.guard(own_name, ttl=60, lease=60)
    for _ in range(TRIES):
        armed = proxy.arm(ABANDON, fault)
        with pytest.raises(LookupError):
            guard.get(fail)
        assert armed.hits == 1
        # The renewer withdraws it long before its lease ends
        assert locks.guard(own_name, ttl=60).get(lambda: "next", timeout=20) == "next"
        assert guard.invalidate() == 1


def test_a_request_abandoned_on_its_way_gets_no_refresh_lease(
    client: Client, proxy: Proxy, locks: Client, own_name: str
) -> None:
    guards = guards_of(client)
    for _ in range(TRIES):
        mine = wish(own_name)
        late = proxy.arm(BEGIN, HOLD_REQUEST)
        with pytest.raises(Exception, match="gave no answer"):
            run_sync(guards.begin(mine, 0.1))
        given_up = Abandon(mine.entry, mine.id, 1.0, suspect=True)
        assert run_sync(guards.abandon(given_up, 10.0)) is False
        assert not isinstance(begin(locks, mine), Duty)  # nor has a copy of it
        late.let_go()
        until(lambda: proxy.connections <= 2, "its connection has ended")
        other = wish(own_name)
        assert isinstance(begin(locks, other), Duty)
        run_sync(guards_of(locks).invalidate([Entry(own_name, "")], 10.0))
