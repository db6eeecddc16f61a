"""Requests and replies that are lost, late or cut off: see ``tests/stores/lost.py``."""

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
from holdfast.stores.redis.library import (
    JOIN,
    JOIN_FREE,
    KEEP,
    LEAVE,
    LEAVE_ALL,
    STAND,
    Script,
)
from holdfast.testing import lag
from holdfast.testing.faults import DROP_REPLY, HOLD_REPLY, HOLD_REQUEST, Proxy
from tests.stores import lost
from tests.stores.lost import *  # noqa: F403
from tests.stores.redis.conftest import eventually
from tests.torture.scale import times

Look = Callable[[str], LineRecord | None]
#: An acquire can exceed its time-out by this much; the lag of the machine is subtracted.
LATE_S = 0.25
lag.watch()


@pytest.fixture
def words() -> lost.Words:
    verbs = (JOIN, LEAVE, KEEP, STAND)
    join, leave, keep, stand = (verb.sha for verb in verbs)
    together = (JOIN_FREE.sha, LEAVE_ALL.sha)
    return lost.Words(join, leave, keep, stand, (stand,), *together, tries=300)


def test_a_join_without_an_answer_ends_in_time(
    by_proxy: Client, proxy: Proxy, own_name: str
) -> None:
    proxy.arm(JOIN.sha, DROP_REPLY)
    begun = boottime()
    with pytest.raises(StoreUnavailable):
        by_proxy.lock(own_name).acquire(timeout=0.2)
    assert boottime() - begun - lag.since(begun) < 0.2 + 3 * LATE_S


@pytest.mark.parametrize("verb", [JOIN, LEAVE], ids=["join", "leave"])
def test_a_late_reply_is_never_taken_for_anothers(
    verb: Script, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    # Given a request that was given up, and whose reply comes after that
    late, within = proxy.arm(verb.sha, HOLD_REPLY), 0.05 if verb is JOIN else 5
    with contextlib.suppress(StoreUnavailable):
        if hold := by_proxy.lock(own_name, ttl=0.3, auto_renew=False).acquire(timeout=within):
            hold.release()
    assert late.hits == 1
    late.let_go()
    # When other names are acquired, then each request gets its own reply
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
        # When the join arrives at last
        late.let_go()
        eventually(lambda: proxy.connections <= 2)
        # Then no claim holds
        eventually(partial(lambda name: line(name) is None, name))


def test_a_late_copy_of_a_join_that_was_repeated_and_released_finds_a_tombstone(
    by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    """One connection has the copy. On another, the repeated join was granted and released."""
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


def test_a_wake_up_in_the_same_read_as_the_reply_before_it_is_received(
    by_proxy: Client, proxy: Proxy, own_name: str, locks: Client, line: Look
) -> None:
    # Given a waiter that has asked again, and whose reply is on its way
    holder = locks.lock(own_name).acquire()
    found: list[float] = []

    def work() -> None:
        with by_proxy.lock(own_name, timeout=10):
            found.append(boottime())

    held_back = proxy.arm(STAND.sha, HOLD_REPLY)
    thread = threading.Thread(target=work)
    thread.start()
    held_back.wait()
    # When it is granted meanwhile, so that the wake-up comes right behind the reply
    holder.release()
    eventually(lambda: (found := line(own_name)) and found.holders)
    begun = boottime()
    held_back.let_go()
    thread.join(10)
    # Then it doesn't sleep until its next poll
    assert found[0] - begun < 0.5 + lag.since(begun)
