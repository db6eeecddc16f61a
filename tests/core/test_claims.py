"""The way from a request to a hold, if the store doesn't reply, replies late, or replies twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from holdfast import Client, ConfigError, StoreUnavailable
from holdfast.core.model import Claim, Granted, Held, Joined, Keep, Leave, Waiting
from holdfast.runtime.blocking import boottime
from holdfast.stores.memory import line
from holdfast.testing import lag
from holdfast.testing.clock import TestClock
from holdfast.testing.rivals import Rival
from tests.core.flaky import Flaky, behind, mend_after

lag.watch()


@pytest.fixture
def store(locks: Client) -> Flaky:
    return behind(locks)


def later(seconds: float, act: Callable[[], Any]) -> threading.Timer:
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


@pytest.mark.parametrize("fault", ["down", "mute"])
def test_a_join_that_is_not_answered_is_sent_again_and_enters_once(
    fault: str, locks: Client, store: Flaky
) -> None:
    setattr(store, fault, {"join"})
    mending = mend_after(store, "join", 2)
    with locks.lock("x") as hold:
        assert store.calls["join"] > 1
        (record,) = locks.inspect("x")
        assert [claim.fence for claim in record.claims] == [hold.fence]
    mending.join()
    assert locks.inspect("x") == []


@pytest.mark.parametrize("fault", ["down", "mute"])
def test_a_silent_store_is_an_error_and_never_taken_for_busy(
    fault: str, locks: Client, store: Flaky
) -> None:
    setattr(store, fault, {"join"})
    for options, most in (
        ({"timeout": 0}, 0.5),
        ({"timeout": 0.3}, 0.55),
        ({"blocking": False}, 1.5),
    ):
        begun = boottime()
        with pytest.raises(StoreUnavailable, match="is unknown whether the name is free"):
            locks.lock("x").acquire(**options)  # type: ignore[call-overload]
        assert boottime() - begun < most + lag.since(begun)
    store.mend()
    assert locks.inspect("x") == []


def test_what_can_not_be_withdrawn_at_once_is_withdrawn_later(locks: Client, store: Flaky) -> None:
    store.mute, store.down = {"join"}, {"leave"}
    with pytest.raises(StoreUnavailable):
        locks.lock("x").acquire(timeout=0.1)
    assert len(locks.inspect("x")) == 1
    store.mend()
    end = time.monotonic() + 5
    while locks.inspect("x"):
        assert time.monotonic() < end, "a claim was left"
        time.sleep(0.005)


def test_an_outage_shorter_than_the_waiter_ttl_costs_no_place_in_line(
    locks: Client, store: Flaky, contend: Callable[..., Rival]
) -> None:
    rival = contend("x")
    behind_us: list[Rival] = []
    waiting = threading.Thread(target=lambda: locks.lock("x").acquire().release())
    waiting.start()
    while not locks.inspect("x")[0].waiters:
        time.sleep(0.002)
    behind_us.append(contend("x"))
    store.down = {"keep"}
    timer = later(1.3, store.mend)  # it asks in vain once or twice meanwhile
    timer.join()
    rival.leave()
    waiting.join(5)
    assert not waiting.is_alive()
    assert store.calls["keep"] >= 2
    assert behind_us[0].holding


def test_a_grant_that_comes_too_late_is_released_and_requested_again(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    join = store.join
    answers: list[Joined] = []

    async def slow(claim: Claim, wait: bool, within: float) -> Joined:
        answers.append(await join(claim, wait, within))
        if len(answers) < 3:
            lock_clock._space.skew += 31.0
        return answers[-1]

    store.join = slow  # type: ignore[method-assign]
    with locks.lock("x", ttl=30) as hold:
        assert hold.fence == answers[2].fence  # type: ignore[union-attr]
        assert hold.remaining() > 29
    assert len({one.fence for one in answers if isinstance(one, Held)}) == 3


def test_a_store_that_always_answers_too_late_is_reported_as_too_slow(
    locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    join = store.join

    async def slow(claim: Claim, wait: bool, within: float) -> Joined:
        answer = await join(claim, wait, within)
        lock_clock._space.skew += 31.0
        return answer

    store.join = slow  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match=r"5 times.*lease of 30 s on 'x'.*longer ttl"):
        locks.lock("x", ttl=30).acquire()
    assert locks.inspect("x") == []


def test_a_wake_up_for_an_earlier_ticket_of_the_same_id_is_ignored(
    locks: Client, store: Flaky, contend: Callable[..., Rival]
) -> None:
    """The wake-up of an expired ticket must not count as a grant.

    The reply to a join was lost and its claim expired, so the repeated join entered the line again.
    The wake-up for the first ticket arrives after that.
    """
    rival = contend("x")
    wait, late = store.wait, [1]

    async def pokes(claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        if late:
            return Granted(waiting.ticket - late.pop())
        return await wait(claim, waiting, seconds)

    store.wait = pokes
    # Long enough to reach the wait in any case
    assert locks.lock("x").acquire(timeout=1.5) is None
    assert not late
    rival.leave()
    assert locks.inspect("x") == []


def test_a_line_has_an_end(
    locks: Client, contend: Callable[..., Rival], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "WAITERS_MAX", 3)
    for _ in range(4):
        contend("x")
    assert locks.lock("x").acquire(blocking=False) is None
    with pytest.raises(ConfigError, match="3 claims wait for 'x' already"):
        locks.lock("x").acquire(timeout=1)


@pytest.mark.parametrize("verb", ["join", "wait", "keep"])
def test_ctrl_c_anywhere_on_the_way_leaves_nothing(
    verb: str, locks: Client, store: Flaky, contend: Callable[..., Rival]
) -> None:
    real = getattr(store, verb)

    async def interrupted(*args: Any) -> Any:
        await real(*args)
        raise KeyboardInterrupt

    setattr(store, verb, interrupted)
    rival = contend("x")
    with pytest.raises(KeyboardInterrupt):
        locks.lock("x").acquire(timeout=2)
    (record,) = locks.inspect("x")
    assert [claim.fence for claim in record.claims] == [rival.fence]


def test_a_client_that_is_closed_while_it_waits_gives_up(
    locks: Client, contend: Callable[..., Rival]
) -> None:
    contend("x")
    failures: list[Exception] = []

    def wait() -> None:
        try:
            locks.lock("x").acquire()
        except StoreUnavailable as failure:
            failures.append(failure)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not contend("x").fence or len(_line(locks)) < 3:
        time.sleep(0.002)
    locks.close()
    waiting.join(5)
    assert "closed" in str(failures[0])


def test_a_client_that_is_closed_while_its_store_is_silent_gives_up(
    locks: Client, store: Flaky
) -> None:
    store.cut()
    failures: list[Exception] = []

    def ask() -> None:
        try:
            locks.lock("x").acquire()
        except StoreUnavailable as failure:
            failures.append(failure)

    asking = threading.Thread(target=ask)
    asking.start()
    while not store.calls["join"]:
        time.sleep(0.002)
    begun = time.monotonic()
    locks.close()
    asking.join(20)
    assert "is closed; make a new one" in str(failures[0])
    assert time.monotonic() - begun < 5


def test_a_lease_is_valid_for_at_most_its_ttl_whatever_the_store_returns(
    locks: Client, store: Flaky
) -> None:
    """A store whose clock was set back between a join and its repetition can return 3600 s."""
    inner = store.store
    join, join_free, keep = inner.join, inner.join_free, inner.keep

    def longer(answer: Any) -> Any:
        return answer._replace(expires_in=3600.0) if isinstance(answer, Held) else answer

    async def long_join(claim: Claim, wait: bool, within: float) -> Joined:
        return cast("Joined", longer(await join(claim, wait, within)))

    async def long_join_free(claims: Any, within: float) -> Any:
        return [longer(one) for one in await join_free(claims, within) or []]

    async def long_keep(keeps: Any, within: float) -> Any:
        return [longer(one) for one in await keep(keeps, within)]

    inner.join, inner.join_free, inner.keep = (  # type: ignore[method-assign]
        long_join,
        long_join_free,
        long_keep,
    )
    with locks.lock("x", ttl=30, auto_renew=False) as hold:
        assert hold.remaining() <= 30
        token = hold.detach()
    with locks.adopt(token) as adopted:
        assert adopted.remaining() <= 30
    both = [locks.lock(name, ttl=30, auto_renew=False) for name in ("a", "b")]
    with locks.all(*both) as holds:
        assert holds.remaining() <= 30
    assert store.calls["join_free"] == 1


def test_a_long_wait_is_logged_once_with_the_holder_and_the_position(
    locks: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    contend: Callable[..., Rival],
) -> None:
    monkeypatch.setattr("holdfast.core.waits.LONG_S", 0.2)
    caplog.set_level("INFO", "holdfast")
    rival = contend("x")
    waiting = threading.Thread(target=lambda: locks.lock("x").acquire().release())
    waiting.start()
    end = time.monotonic() + 20
    while "still waiting" not in caplog.text:
        assert time.monotonic() < end, "it isn't told"
        time.sleep(0.01)
    time.sleep(1.5)  # it asks again meanwhile
    rival.leave()
    waiting.join(20)
    (told,) = [one.getMessage() for one in caplog.records if "still waiting" in one.getMessage()]
    assert "'x'" in told
    assert "number 1 in line; held by" in told


def _line(locks: Client) -> tuple[Any, ...]:
    return locks.inspect("x")[0].claims


def test_secrets_never_show(
    locks: Client, store: Flaky, caplog: pytest.LogCaptureFixture, lose: Any
) -> None:
    # Given: all ids that were ever sent, and all text that users can see
    caplog.set_level(0)
    ids: set[str] = set()
    shown: list[str] = []
    join, keep = store.join, store.store.keep

    async def note_join(claim: Claim, wait: bool, within: float) -> Joined:
        ids.add(claim.id)
        shown.extend([repr(claim), str(claim), f"{claim}", repr(Leave("x", claim.id, 7))])
        return await join(claim, wait, within)

    async def note_keep(keeps: Any, within: float) -> Any:
        ids.update(one.new_id for one in keeps if one.new_id)
        shown.extend(map(repr, keeps))
        return await keep(keeps, within)

    store.join, store.store.keep = note_join, note_keep  # type: ignore[method-assign]
    # When
    hold = locks.lock("x").acquire()
    token = hold.detach()
    mine = locks.adopt(token)
    shown += [repr(mine), str(mine), repr(hold), repr(locks), repr(locks.lock("x"))]
    shown += [repr(locks.inspect("x")), repr(Keep(Claim("s" * 32, mine._lease.claim.spec), 1, 1.0))]
    for act in (lambda: locks.adopt(token), lambda: locks.lock("x", timeout=0).__enter__()):
        with pytest.raises(Exception) as failed:  # whatever it says
            act()
        shown.append(repr(failed.value))
    lose(mine)
    with pytest.raises(Exception) as failed:
        mine.check()
    shown += [repr(failed.value), caplog.text]
    # Then
    assert len(ids) >= 2
    assert len(shown) > 10
    for secret in (*ids, token, "s" * 32):
        assert not [text for text in shown if secret in text]
