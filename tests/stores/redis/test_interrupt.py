"""Signals whose handlers raise nothing lengthen no wait."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Proxy

lag.watch()


#: The time between two signals; each interrupts the system call that is under way.
EVERY_S = 0.02
TIMEOUT_S, LATE_S = 0.5, 2.5
#: The longest time for which signals come.
ENOUGH_S = 4.0


@pytest.fixture
def signals() -> Iterator[list[int]]:
    """The signals of a process timer; their handler only counts them."""
    came: list[int] = []

    def handle(number: int, _: object) -> None:
        came.append(number)
        if len(came) * EVERY_S > ENOUGH_S:  # else an endless wait would never be left
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    former = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, EVERY_S, EVERY_S)
    yield came
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, former)


def in_time(begun: float) -> bool:
    return boottime() - begun - lag.since(begun) <= TIMEOUT_S + LATE_S


def test_a_server_that_is_silent_is_given_up_in_time(
    by_proxy: Client, proxy: Proxy, own_name: str, signals: list[int]
) -> None:
    with by_proxy.lock(own_name):
        pass
    proxy.blackhole()
    begun = boottime()
    with pytest.raises(StoreUnavailable):
        by_proxy.lock(own_name).acquire(timeout=TIMEOUT_S)
    assert in_time(begun)
    assert len(signals) > 1


def test_a_wait_for_a_busy_name_ends_in_time(
    by_proxy: Client, locks: Client, own_name: str, signals: list[int]
) -> None:
    with locks.lock(own_name):
        begun = boottime()
        assert by_proxy.lock(own_name).acquire(timeout=TIMEOUT_S) is None
        assert in_time(begun)
    assert len(signals) > 1
