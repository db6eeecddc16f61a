"""Requests and replies that are lost, late or cut off, and the connections that carried them."""

from __future__ import annotations

import contextlib
import time

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.testing.faults import HOLD_REPLY, RESET_REPLY, Fault, Proxy, delay_reply
from tests.servers.process import until
from tests.stores.queue_lost import RESETS
from tests.stores.sql.fixtures import Look
from tests.stores.sql.lost import *  # noqa: F403
from tests.torture.scale import times

JOIN, LEAVE, RENEW = b"_join_4(", b"_leave_4(", b"_renew_4("
#: The request by which a waiting worker asks for due jobs.
DUE = b"t.stands IN (0, 1, 2)"


@RESETS
def test_renewals_that_are_cut_off_together_cost_no_hold(
    fault: Fault, by_proxy: Client, proxy: Proxy, own_name: str
) -> None:
    ttl = 6.0
    holds = [by_proxy.lock(f"{own_name}:{at}", ttl=ttl).acquire() for at in range(4)]
    # When two renewals are cut off, one after the other
    for _ in range(times(25, 1)):
        for _ in range(2):
            proxy.arm(RENEW, fault).wait()
        # Then the next renewal extends each hold
        before = [hold._lease.deadline for hold in holds]
        for hold, last in zip(holds, before, strict=True):
            until(lambda: hold._lease.deadline > last, "it is renewed")  # noqa: B023
            hold.check()
    for hold in holds:
        assert hold.release()


@pytest.mark.parametrize("verb", [JOIN, LEAVE], ids=["join", "leave"])
def test_a_late_reply_is_never_taken_for_anothers(
    verb: bytes, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    # Given a request that was given up, and whose reply comes late
    late = proxy.arm(verb, HOLD_REPLY)
    with contextlib.suppress(StoreUnavailable):
        if hold := by_proxy.lock(own_name, ttl=0.3, auto_renew=False).acquire(timeout=0.05):
            hold.release()
    late.wait()  # a server that gets no core for a moment answers later
    late.let_go()
    # When others are requested, then each request gets its own reply
    for number in range(5):
        name = f"{own_name}:{number}"
        mine = by_proxy.lock(name).acquire(timeout=10)
        found = line(name)
        assert mine is not None
        assert found is not None
        assert [one.fence for one in found.claims] == [mine.fence]
        assert mine.release()


def test_what_may_have_been_carried_out_is_not_sent_again(
    by_proxy: Client, proxy: Proxy, own_name: str
) -> None:
    # Given joins whose replies are cut off
    seen: list[bytes] = []

    def counted(sent: bytes) -> bool:
        if JOIN in sent and own_name.encode().hex().encode() in sent:
            seen.append(sent)
        return False

    proxy.arm(counted, delay_reply(0.0))
    armed = proxy.arm(JOIN, RESET_REPLY)
    # When a client tries once, and has no time to try again
    with pytest.raises(StoreUnavailable):
        by_proxy.lock(own_name).acquire(timeout=0.001)
    armed.wait()
    # Then the store has sent the join only once
    time.sleep(0.2)
    assert len(seen) == 1


def test_a_connection_that_idled_for_too_long_is_no_loss(
    by_proxy: Client, proxy: Proxy, own_name: str
) -> None:
    # Given a hold, and connections that the proxy has ended since then
    hold = by_proxy.lock(own_name).acquire()
    time.sleep(1.1)
    proxy.reset()
    time.sleep(0.1)
    # Then the client works as before
    assert hold.release()
    with by_proxy.lock(own_name, timeout=5) as again:
        assert again.fence > hold.fence


def test_a_wait_that_is_cut_off_finds_what_comes(
    by_proxy: Client, proxy: Proxy, own_name: str, locks: Client
) -> None:
    armed = proxy.arm(DUE, RESET_REPLY)
    queue = by_proxy.queue(own_name)
    assert queue.take(timeout=0.5) is None
    assert armed.hits == 1
    locks.queue(own_name).put("now")
    job = queue.take(timeout=10)
    assert job is not None
    assert job.ack()
