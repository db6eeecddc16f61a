"""Requests and replies that are lost, late or cut off: nothing leaks, and no answer is a lie."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.model import LineRecord
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.library import JOIN, KEEP, LEAVE, STAND, Script
from holdfast.testing import lag
from holdfast.testing.faults import (
    DROP_REPLY,
    DROP_REQUEST,
    HOLD_REPLY,
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
    Proxy,
    delay_reply,
)
from tests.stores.redis.conftest import eventually
from tests.torture.scale import times

Look = Callable[[str], LineRecord | None]
RESETS = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
DROPS = pytest.mark.parametrize("fault", [DROP_REQUEST, DROP_REPLY], ids=["request", "reply"])
TRIES = times(300, 15)
#: An acquire may exceed its time-out by so much; what the machine itself is late is taken off.
LATE_S = 0.25
lag.watch()
#: A claim that nobody wants any more is out of the line after so long: long before its lease ends.
LATER_S = 2.0


@RESETS
def test_a_join_that_is_cut_off_is_sent_again_and_enters_once(
    fault: Fault, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in range(TRIES):
        name = f"{own_name}:{number}"
        # Given
        armed = proxy.arm(JOIN.sha, fault)
        # When
        hold = by_proxy.lock(name).acquire(timeout=5)
        # Then
        assert hold is not None
        found = line(name)
        assert found is not None
        assert [one.fence for one in found.claims] == [hold.fence]
        assert armed.hits == 1
        # And its release leaves nothing
        assert hold.release()
        assert line(name) is None


@RESETS
def test_a_leave_that_is_cut_off_says_the_truth(
    fault: Fault, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in range(TRIES):
        name = f"{own_name}:{number}"
        hold = by_proxy.lock(name).acquire()
        armed = proxy.arm(LEAVE.sha, fault)
        assert hold.release()
        assert armed.hits == 1
        assert line(name) is None


@RESETS
def test_a_renewal_that_is_cut_off_costs_no_hold(
    fault: Fault, by_proxy: Client, proxy: Proxy, own_name: str
) -> None:
    # Given
    hold = by_proxy.lock(own_name, ttl=0.6).acquire()
    # When each second renewal is cut off
    armed = [proxy.arm(lambda sent, n=number: KEEP.sha in sent, fault) for number in range(3)]
    for one in armed:
        one.wait()
    # Then
    time.sleep(0.6)
    hold.check()
    assert hold.release()


@RESETS
def test_a_waiter_that_is_cut_off_keeps_its_place(
    fault: Fault, by_proxy: Client, proxy: Proxy, own_name: str, locks: Client, line: Look
) -> None:
    for number in range(times(300, 4)):
        name = f"{own_name}:{number}"
        # Given a holder, and somebody behind the proxy who waits, with somebody behind it
        holder = locks.lock(name).acquire()
        armed = proxy.arm(STAND.sha, fault)
        found: list[int] = []
        threads = []
        for client in (by_proxy, locks):
            threads.append(threading.Thread(target=_pass, args=(client, name, found)))
            threads[-1].start()
            eventually(lambda: len((line(name) or holder_gone()).waiters) == len(threads))  # noqa: B023
        # When its next question is cut off, and asked again
        again = proxy.arm(STAND.sha, delay_reply(0.0))
        armed.wait()
        again.wait()
        before = [one.fence for one in eventually(lambda: line(name)).waiters]  # noqa: B023
        holder.release()
        for thread in threads:
            thread.join(10)
        # Then it was served in its turn
        assert found == before
        assert line(name) is None


def holder_gone() -> LineRecord:
    return LineRecord("", "lock", 1, ())


def _pass(client: Client, name: str, found: list[int]) -> None:
    with client.lock(name, timeout=10) as hold:
        found.append(hold.fence)


@DROPS
def test_a_join_without_an_answer_is_not_called_busy_and_leaks_nothing(
    fault: Fault, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in range(times(200, 3)):
        name = f"{own_name}:{number}"
        armed = proxy.arm(JOIN.sha, fault)
        begun = boottime()
        with pytest.raises(StoreUnavailable, match="isn't known whether it is free"):
            by_proxy.lock(name).acquire(timeout=0.2)
        assert boottime() - begun - lag.since(begun) < 0.2 + LATE_S
        assert armed.hits == 1
        eventually(lambda: line(name) is None, LATER_S)  # noqa: B023


@DROPS
def test_a_leave_without_an_answer_is_never_called_not_held(
    fault: Fault, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in range(times(200, 2)):
        name = f"{own_name}:{number}"
        hold = by_proxy.lock(name, ttl=0.5, auto_renew=False).acquire()
        armed = proxy.arm(LEAVE.sha, fault)
        with contextlib.suppress(StoreUnavailable):
            assert hold.release()
        assert armed.hits == 1
        eventually(lambda: line(name) is None, LATER_S)  # noqa: B023


@pytest.mark.parametrize("verb", [JOIN, LEAVE], ids=["join", "leave"])
def test_a_late_reply_is_never_taken_for_anothers(
    verb: Script, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    # Given a request that was given up, and whose answer comes after all
    late = proxy.arm(verb.sha, HOLD_REPLY)
    with contextlib.suppress(StoreUnavailable):
        if hold := by_proxy.lock(own_name, ttl=0.3, auto_renew=False).acquire(timeout=0.05):
            hold.release()
    assert late.hits == 1
    late.let_go()
    # When others are asked for, then each gets its own answer
    for number in range(5):
        name = f"{own_name}:{number}"
        mine = by_proxy.lock(name).acquire(timeout=5)
        found = line(name)
        assert mine is not None
        assert found is not None
        assert [one.fence for one in found.claims] == [mine.fence]
        assert mine.release()


def test_a_late_copy_of_a_join_finds_a_tombstone(
    by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    for number in range(times(300, 4)):
        name = f"{own_name}:{number}"
        # Given a join that is on its way while its client gives up
        late = proxy.arm(JOIN.sha, HOLD_REQUEST)
        with pytest.raises(StoreUnavailable):
            by_proxy.lock(name).acquire(timeout=0.05)
        # When it arrives after all
        late.let_go()
        eventually(lambda: proxy.connections <= 2)
        # Then nobody holds
        eventually(partial(lambda name: line(name) is None, name))


def test_a_late_copy_of_a_join_that_was_repeated_and_released_finds_a_tombstone(
    by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    """The copy is on one connection, the repetition, which held and has left, on another."""
    # Given
    late = proxy.arm(JOIN.sha, HOLD_REQUEST)
    held = threading.Event()
    may_leave = threading.Event()

    def work() -> None:
        with by_proxy.lock(own_name, timeout=20):
            held.set()
            may_leave.wait(20)

    thread = threading.Thread(target=work)
    thread.start()
    late.wait()
    assert held.wait(20), "the join was not repeated"
    may_leave.set()
    thread.join(10)
    # When
    late.let_go()
    time.sleep(LATE_S)
    # Then
    assert line(own_name) is None


def test_a_poke_in_the_same_read_as_the_reply_before_it_is_heard(
    by_proxy: Client, proxy: Proxy, own_name: str, locks: Client, line: Look
) -> None:
    # Given a waiter that has asked again, and whose answer is on its way
    holder = locks.lock(own_name).acquire()
    found: list[float] = []

    def work() -> None:
        with by_proxy.lock(own_name, timeout=10):
            found.append(time.monotonic())

    held_back = proxy.arm(STAND.sha, HOLD_REPLY)
    thread = threading.Thread(target=work)
    thread.start()
    held_back.wait()
    # When it is served meanwhile, so that the poke comes right behind the answer
    holder.release()
    eventually(lambda: (line(own_name) or holder_gone()).holders)
    begun = time.monotonic()
    held_back.let_go()
    thread.join(10)
    # Then it doesn't sleep until it would ask again
    assert found[0] - begun < 0.5
