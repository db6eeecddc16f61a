"""The renewer: it renews in time and in batches, survives outages, and reports a loss once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast import Client, LockLost, Loss, State, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.clock import TestClock
from tests.core.flaky import Flaky
from tests.servers.process import until

lag.watch()


def keepers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "holdfast-keeper"}


def test_holds_of_many_lengths_are_each_renewed_at_their_own_pace(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    kept: list[str] = []
    store.before_renew = lambda renewals: kept.extend(one.claim.spec.name for one in renewals)
    ttls = [3, 6, 12, 30, 60]
    holds = [locks.lock(f"{ttl}", ttl=ttl).acquire() for ttl in ttls]
    lock_clock.advance(61)
    for ttl, hold in zip(ttls, holds, strict=True):
        hold.check()
        assert 0.9 * 61 // (ttl / 3) <= kept.count(f"{ttl}") <= 61 // (ttl / 3) + 1
        hold.release()


def test_nothing_runs_before_a_hold_needs_it() -> None:
    clock = TestClock()
    before = keepers()
    client = clock.client()
    client.inspect()
    client.lock("x", auto_renew=False).acquire().release()
    assert not keepers() - before
    assert client.lock("x").acquire().release() is True
    assert len(keepers() - before) == 1
    clock.close()
    until(lambda: not keepers() - before, "the renewer has ended")


def test_an_outage_shorter_than_the_lease_loses_nothing(
    locks: Client, lock_clock: TestClock, store: Flaky, caplog: pytest.LogCaptureFixture
) -> None:
    with locks.lock("x", ttl=30) as hold:
        lock_clock.advance(25)  # renewed at 10 and 20
        store.down = {"renew"}
        lock_clock.jump(10)
        until(lambda: hold.state is State.JEOPARDY, "a renewal has failed")
        hold.check()
        assert 10 < hold.remaining() < 16
        store.mend()
        until(lambda: hold.state is State.HELD, "it is renewed again")
        assert hold.remaining() > 25
    assert caplog.text.count("renewing 'x' failed") == 1


def test_an_outage_longer_than_the_lease_is_reported_at_the_deadline(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    told: list[tuple[Loss, float]] = []
    lock = locks.lock("x", ttl=30, on_lost=lambda hold, why: told.append((why, lock_clock.now())))
    begun, really = lock_clock.now(), boottime()
    hold = lock.acquire()
    store.cut()
    lock_clock.jump(10)
    until(lambda: hold.state is State.JEOPARDY, "a renewal has failed")
    lock_clock.jump(16)
    hold.check()
    lock_clock.jump(4)
    until(lambda: told, "the loss is reported")
    assert told[0][0] is Loss.UNREACHABLE
    assert told[0][1] - begun < 30.6 + lag.since(really)
    with pytest.raises(LockLost, match="unreachable until the deadline"):
        hold.check()
    store.mend()
    assert hold.release() is False
    until(lambda: not locks.inspect("x"), "it is released")


def test_an_error_about_one_claim_leaves_the_others_alone(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    holds = {name: locks.lock(name, ttl=30).acquire() for name in ("a", "b", "c")}
    store.broken = {"b"}
    lock_clock.jump(10.5)
    until(lambda: holds["b"].state is State.JEOPARDY, "its renewal has failed")
    until(lambda: all(holds[name].remaining() > 28 for name in "ac"), "the others are renewed")
    assert [hold.state for hold in holds.values()] == [State.HELD, State.JEOPARDY, State.HELD]
    store.broken = set()
    until(lambda: holds["b"].state is State.HELD, "it is renewed, too")
    for hold in holds.values():
        assert hold.release() is True


def test_a_renewal_that_is_answered_too_late_brings_nothing_back(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    hold = locks.lock("x", ttl=30).acquire()
    seen: list[Loss | None] = []

    def be_slow(keeps: Any) -> None:
        lock_clock._space.skew += 25.0
        seen.append(hold.lost)

    store.before_renew = be_slow
    lock_clock.jump(10.5)
    until(lambda: hold.lost, "it is lost")
    assert seen == [Loss.EXPIRED]
    assert hold.release() is False


def test_a_release_during_a_renewal_is_no_loss(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    told: list[Any] = []
    hold = locks.lock("x", ttl=30, on_lost=lambda *news: told.append(news)).acquire()
    answers: list[bool] = []
    store.before_renew = lambda renewals: answers.append(hold.release())
    lock_clock.jump(10.5)
    until(lambda: answers, "it is renewed and released")
    lock_clock.advance(40)
    assert (answers, told, hold.lost, hold.state) == ([True], [], None, State.RELEASED)


@pytest.mark.parametrize("act", ["extend", "detach", "downgrade"])
def test_a_failed_change_leaves_the_hold_unchanged(
    act: str, locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    hold = locks.rwlock("x", ttl=30).write.acquire()
    weight = hold.weight
    store.down = {"renew", "change"}
    with pytest.raises(StoreUnavailable):
        hold.extend(60) if act == "extend" else getattr(hold, act)()
    store.mend()
    lock_clock.advance(100)
    hold.check()
    assert hold.ttl == 30
    # (A downgrade whose reply was lost is carried out with the next renewal.)
    (line,) = locks.inspect("x")
    assert [one.weight for one in line.holders] == [1 if act == "downgrade" else weight]
    assert hold.release() is True
