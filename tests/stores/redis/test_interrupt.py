"""Ctrl-C ends a blocking read at once and leaves no claim; other signals prolong no wait."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.library import JOIN, LEAVE, RENEW, STAND, Script
from holdfast.testing import lag
from holdfast.testing.faults import DROP_REPLY, Proxy
from tests.stores.redis.conftest import eventually
from tests.torture.scale import times

lag.watch()


#: The time between two signals; each interrupts the system call that is under way.
EVERY_S = 0.02
TIMEOUT_S, LATE_S = 0.5, 2.5
#: The longest time for which signals come.
ENOUGH_S = 4.0


@pytest.fixture
def ctrl_c() -> Iterator[Callable[[], None]]:
    """A function that sends Ctrl-C to the main thread; any thread may call it."""
    former = signal.signal(signal.SIGUSR2, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, former)


def _pass(client: Client, name: str, extend: bool) -> None:
    with client.lock(name, timeout=20) as hold:
        if extend:
            hold.extend()


def _is_of(sha: bytes, name: bytes, sent: bytes) -> bool:
    return sha in sent and name in sent


@pytest.mark.parametrize(
    "verb", [JOIN, RENEW, LEAVE, STAND], ids=["join", "renew", "leave", "stand"]
)
def test_a_read_that_blocks_is_left_at_once_and_undone(
    verb: Script,
    by_proxy: Client,
    proxy: Proxy,
    other: Client,
    own_name: str,
    ctrl_c: Callable[[], None],
) -> None:
    took = []
    for number in range(times(300, 3)):
        # Given a request whose reply doesn't come
        name = f"{own_name}{number:04}"
        rival = other.lock(name).acquire() if verb is STAND else None
        # Only for this name, because the renewer can still clean up after the last one
        armed = proxy.arm(partial(_is_of, verb.sha, name.encode()), DROP_REPLY)
        thread = threading.Thread(target=lambda: (armed.wait(), ctrl_c()))  # noqa: B023
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            _pass(by_proxy, name, extend=verb is RENEW)
        came = time.monotonic()
        thread.join()
        if rival is not None:
            rival.release()
        eventually(lambda: not other.inspect(name))  # noqa: B023
        took.append(time.monotonic() - came)
        with by_proxy.lock(name, timeout=5):
            pass
    # Half of the tries are fast; the machine can delay the others
    assert sorted(took)[len(took) // 2] < 0.25


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
