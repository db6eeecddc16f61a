"""Traps of releasing: a client deletes a lock that another client holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from holdfast import StoreUnavailable
from holdfast.testing.faults import HOLD_REQUEST, Proxy
from tests.traps.conftest import Ours


def test_a_release_of_holdfast_that_arrives_late_ends_no_other_hold(
    proxy: Proxy, ours: Ours, own_name: str
) -> None:
    # Given a release that was sent in time, and is delayed on the way
    taker, third = ours(), ours()
    late = ours(proxy).lock(own_name, ttl=2.0, auto_renew=False).acquire()
    fault = proxy.arm(own_name.encode(), HOLD_REQUEST)
    with ThreadPoolExecutor(1) as pool:
        releasing = pool.submit(late.release)
        fault.wait()
        # When the lease expires during the delay, and another client holds
        other = taker.lock(own_name).acquire(timeout=10)
        assert other
        fault.let_go()
        # Then the first client gets no success, and the other client still holds
        wrong = releasing.exception(10)
        assert isinstance(wrong, StoreUnavailable) if wrong else not releasing.result()
    assert third.lock(own_name).acquire(blocking=False) is None
    other.check()
    assert other.release()
