"""The renewer: it renews in time and in batches, survives outages, and reports a loss once."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, LockLost, Loss, State, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.clock import TestClock
from tests.core.flaky import Flaky, behind, mend_after

lag.watch()


@pytest.fixture
def store(locks: Client) -> Flaky:
    return behind(locks)


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.001)


def keepers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "holdfast-keeper"}


def test_a_hold_is_renewed_every_third_of_its_ttl(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    with locks.lock("x", ttl=30):
        lock_clock.advance(6)
        assert store.calls["keep"] == 0
        # Stop in the middle between two renewals: real time passes while the machine pauses, too
        lock_clock.advance(99)
        assert store.calls["keep"] == 10


def test_holds_of_many_lengths_are_each_renewed_at_their_own_pace(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    kept: dict[str, int] = {}

    def note(keeps: Any) -> None:
        for keep in keeps:
            kept[keep.claim.spec.name] = kept.get(keep.claim.spec.name, 0) + 1

    store.before_keep = note
    ttls = [3, 6, 12, 30, 60]
    holds = [locks.lock(f"{ttl}", ttl=ttl).acquire() for ttl in ttls]
    lock_clock.advance(61)
    for ttl, hold in zip(ttls, holds, strict=True):
        hold.check()
        assert 0.9 * 61 // (ttl / 3) <= kept[f"{ttl}"] <= 61 // (ttl / 3) + 1
        hold.release()


def test_a_thousand_holds_are_one_thread_and_few_round_trips(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    before = keepers()
    holds = [locks.lock(f"n{number}", ttl=30).acquire() for number in range(1000)]
    lock_clock.advance(60)
    assert len(keepers() - before) == 1
    assert store.calls["keep"] <= 60
    assert sum(store.sizes) == pytest.approx(6000, rel=0.2)
    assert max(store.sizes) > 100
    for hold in holds:
        assert hold.release() is True


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
    until(lambda: not keepers() - before)


def test_a_released_hold_is_renewed_no_more(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    locks.lock("x").acquire().release()
    lock_clock.advance(100)
    assert store.calls["keep"] == 0


def test_an_outage_shorter_than_the_lease_loses_nothing(
    locks: Client, lock_clock: TestClock, store: Flaky, caplog: pytest.LogCaptureFixture
) -> None:
    with locks.lock("x", ttl=30) as hold:
        lock_clock.advance(25)  # renewed at 10 and 20
        store.down = {"keep"}
        lock_clock.jump(10)
        until(lambda: hold.state is State.JEOPARDY)
        hold.check()
        assert 10 < hold.remaining() < 16
        store.mend()
        until(lambda: hold.state is State.HELD)
        assert hold.remaining() > 25
    assert "renewing 'x' failed" in caplog.text
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
    until(lambda: hold.state is State.JEOPARDY)
    lock_clock.jump(16)
    hold.check()
    lock_clock.jump(4)
    until(lambda: told)
    assert told[0][0] is Loss.UNREACHABLE
    assert told[0][1] - begun < 30.6 + lag.since(really)
    with pytest.raises(LockLost, match="unreachable until the deadline"):
        hold.check()
    store.mend()
    assert hold.release() is False
    until(lambda: not locks.inspect("x"))


def test_an_error_about_one_claim_leaves_the_others_alone(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    holds = {name: locks.lock(name, ttl=30).acquire() for name in ("a", "b", "c")}
    store.broken = {"b"}
    lock_clock.jump(10.5)
    until(lambda: holds["b"].state is State.JEOPARDY)
    until(lambda: all(holds[name].remaining() > 28 for name in "ac"))
    assert [hold.state for hold in holds.values()] == [State.HELD, State.JEOPARDY, State.HELD]
    store.broken = set()
    until(lambda: holds["b"].state is State.HELD)
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

    store.before_keep = be_slow
    lock_clock.jump(10.5)
    until(lambda: hold.lost)
    assert seen == [Loss.EXPIRED]
    assert hold.lost is Loss.EXPIRED
    assert hold.release() is False


def test_a_release_during_a_renewal_is_no_loss(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    told: list[Any] = []
    hold = locks.lock("x", ttl=30, on_lost=lambda *news: told.append(news)).acquire()
    answers: list[bool] = []
    store.before_keep = lambda keeps: answers.append(hold.release())
    lock_clock.jump(10.5)
    until(lambda: answers)
    lock_clock.advance(40)
    assert (answers, told, hold.lost, hold.state) == ([True], [], None, State.RELEASED)


@pytest.mark.parametrize("act", ["extend", "detach", "downgrade"])
def test_a_failed_change_leaves_the_hold_unchanged(
    act: str, locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    hold = locks.rwlock("x", ttl=30).write.acquire()
    store.down = {"keep"}
    with pytest.raises(StoreUnavailable):
        hold.extend(60) if act == "extend" else getattr(hold, act)()
    store.mend()
    lock_clock.advance(100)
    hold.check()
    assert hold.ttl == 30
    assert locks.rwlock("x").read.acquire().weight == (1 if act == "downgrade" else hold.weight)
    hold.release()
    assert hold.release() is True


def test_a_downgrade_whose_answer_was_lost_is_caught_up(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    hold = locks.rwlock("x", ttl=30).write.acquire()
    store.down = {"keep"}
    with pytest.raises(StoreUnavailable):
        hold.downgrade()
    store.mend()
    lock_clock.advance(11)
    (line,) = locks.inspect("x")
    assert [one.weight for one in line.holders] == [1]
    assert hold.release() is True


def test_a_release_that_was_not_answered_is_carried_out_later(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    hold = locks.lock("x", ttl=3).acquire()
    store.down = {"leave"}
    answers: list[Any] = []

    def release() -> None:
        try:
            answers.append(hold.release())
        except StoreUnavailable as failure:
            answers.append(failure)

    releasing = threading.Thread(target=release)
    releasing.start()
    until(lambda: store.calls["leave"] >= 1)
    lock_clock.jump(4)
    releasing.join(5)
    assert isinstance(answers[0], StoreUnavailable)
    store.mend()
    until(lambda: not locks.inspect("x"))
    assert hold.release() is False or hold.state is State.RELEASED


def test_a_release_whose_reply_was_lost_returns_that_it_was_held(
    locks: Client, store: Flaky
) -> None:
    hold = locks.lock("x").acquire()
    store.mute = {"leave"}
    mending = mend_after(store, "leave", 2)
    assert hold.release() is True
    assert store.calls["leave"] > 1
    mending.join()


def test_closing_during_a_renewal_marks_its_hold_as_closed(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    hold = locks.lock("x", ttl=30).acquire()
    asked, go_on = threading.Event(), threading.Event()

    def stop(keeps: Any) -> None:
        asked.set()
        go_on.wait(5)

    store.before_keep = stop
    lock_clock._move(10.5)
    assert asked.wait(5)
    locks.close()
    go_on.set()
    assert hold.lost is Loss.CLOSED
    assert hold.release() is False
    assert not lock_clock.client().inspect("x")


def test_a_callback_that_raises_is_logged_and_has_no_other_effect(
    locks: Client, lock_clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(hold: Any, reason: Any) -> None:
        raise ValueError("planted")

    hold = locks.lock("x", auto_renew=False, on_lost=fail).acquire()
    with locks.lock("y") as other:
        lock_clock.advance(60)
        assert hold.lost is Loss.EXPIRED
        other.check()
    assert "the on_lost callback of 'x' raised" in caplog.text
    assert "planted" in caplog.text


def test_a_forgotten_hold_ends_with_its_ttl_though_warnings_are_errors(
    locks: Client, lock_clock: TestClock
) -> None:
    kept = locks.lock("kept", ttl=30).acquire()
    locks.lock("x", ttl=30).acquire()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lock_clock.advance(100)
    kept.check()
    assert not locks.inspect("x")
    kept.release()
    lock_clock._leases.clear()  # it was leaked on purpose
