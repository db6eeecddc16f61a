"""Grants that come too late, and options that a store lacks or a hold has none of: rare ways."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast import (
    CapacityMismatch,
    Client,
    ConfigError,
    Loss,
    NotAcquired,
    NotHeld,
    NotSupported,
    StoreUnavailable,
)
from holdfast.core import across, claims, together, token
from holdfast.core.lock import PROLONGS
from holdfast.core.model import Gone
from holdfast.runtime.blocking import run_sync
from holdfast.testing.clock import TestClock
from holdfast.testing.faults import Fork
from tests.core.flaky import Flaky, behind
from tests.servers.process import until

LATE_S = 100.0


@pytest.fixture
def told() -> list[Any]:
    """The losses that were reported."""
    return []


@pytest.mark.parametrize("with_hold", [True, False])
def test_a_grant_that_is_late_while_its_hold_is_made_is_no_loss(
    with_hold: bool,
    locks: Client,
    lock_clock: TestClock,
    store: Flaky,
    told: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock = locks.lock("x", ttl=5, on_lost=lambda hold, why: told.append(why))
    owner, name = (type(lock), "_make") if with_hold else (claims, "_lease")
    make: Any = getattr(owner, name)

    def late(*given: Any) -> Any:
        made = make(*given)
        monkeypatch.undo()
        lock_clock._space.skew += LATE_S
        return made

    monkeypatch.setattr(owner, name, late)
    with lock.acquire() as hold:
        assert locks._ctx.keeper.pending() == 1
        asked = store.calls["renew"]
        lock_clock.advance(5)
        hold.check()
        assert store.calls["renew"] <= asked + 4  # the first grant isn't renewed
    assert told == []


def test_an_adopted_hold_without_a_renewal_ends_by_its_max_hold(
    locks: Client, lock_clock: TestClock, told: list[Any]
) -> None:
    text = locks.lock("x", ttl=60, max_hold=8).acquire().detach()
    hold = locks.adopt(text, on_lost=lambda hold, why: told.append(why))
    lock_clock.advance(9)
    assert (told, hold.lost) == ([Loss.MAX_HOLD], Loss.MAX_HOLD)


def test_a_hold_that_is_adopted_too_late_is_none(
    locks: Client, lock_clock: TestClock, store: Flaky, told: list[Any]
) -> None:
    text = locks.lock("x", ttl=5).acquire().detach()
    change = store.change

    async def late(asked: Any, within: float) -> Any:
        answers = await change(asked, within)
        if asked.new_id:
            lock_clock._space.skew += LATE_S
        return answers

    store.change = late  # type: ignore[method-assign]
    with pytest.raises(NotHeld, match="adopted too late"):
        locks.adopt(text, on_lost=lambda hold, why: told.append(why))
    lock_clock.advance(1)
    assert (told, locks._ctx.keeper.pending()) == ([], 0)


def test_an_interrupted_adoption_withdraws_what_it_asked_for(locks: Client, store: Flaky) -> None:
    text = locks.lock("x", ttl=60).acquire().detach()
    change = store.change

    async def interrupted(asked: Any, within: float) -> Any:
        answers = await change(asked, within)
        if asked.new_id:
            raise KeyboardInterrupt
        return answers

    store.change = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        locks.adopt(text)
    assert locks.inspect() == []


def test_a_hold_that_was_extended_once_and_is_not_renewed_reports_its_end(
    locks: Client, lock_clock: TestClock, told: list[Any]
) -> None:
    lock = locks.lock("x", ttl=5, auto_renew=False, on_lost=lambda hold, why: told.append(why))
    hold = lock.acquire()
    hold.extend(20)
    lock_clock.advance(15)
    assert told == []
    lock_clock.advance(6)
    assert (told, hold.lost) == ([Loss.EXPIRED], Loss.EXPIRED)


@pytest.mark.parametrize("kind", ["semaphore", "rwlock", "election"])
def test_a_kind_that_the_store_lacks_is_refused(kind: str, locks: Client, store: Flaky) -> None:
    def wish(one: str) -> Any:
        made = getattr(locks, one)
        return made("x", 2) if one == "semaphore" else getattr(made("x"), "read", None)

    can = store.store.capabilities
    store.capabilities = can._replace(**{kind: False})
    for one in ("semaphore", "rwlock", "election"):
        if one == kind:
            with pytest.raises(NotSupported, match="has no"):
                wish(one)
        else:
            wish(one)


@pytest.mark.parametrize("ttl, left", [(60.0, 60.0), (2.0, 5.0)])
def test_a_reentry_that_renews_never_shortens(
    ttl: float, left: float, locks: Client, store: Flaky
) -> None:
    store.capabilities = store.store.capabilities._replace(reentry=PROLONGS)
    wishes = {"auto_renew": False, "reentrant": True}
    with locks.lock("x", ttl=5, **wishes) as hold, locks.lock("x", ttl=ttl, **wishes):
        assert hold.remaining() == pytest.approx(left, abs=1.5)


def test_holds_that_could_not_be_released_together_are_released_later(
    locks: Client, store: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "REQUEST_S", 0.3)
    holds = locks.all(locks.lock("x", ttl=60), locks.lock("y", ttl=60)).acquire()
    store.down = {"leave", "leave_all"}
    with pytest.raises(StoreUnavailable):
        holds.release()
    store.mend()
    until(lambda: not locks.inspect(), "the renewer has released them", 10)


def test_a_release_together_continues_after_an_error_of_one(locks: Client, store: Flaky) -> None:
    holds = locks.all("x", "y").acquire()
    leave_all = store.leave_all

    async def broken(leaves: Any, within: float) -> Any:
        answers = await leave_all(leaves[1:], within)
        return [OSError("planted"), *answers]

    store.leave_all = broken  # type: ignore[method-assign]
    with pytest.raises(OSError, match="planted"):
        holds.release()
    del store.leave_all
    assert [one.name for one in locks.inspect()] == ["y"]
    assert holds.release()
    assert locks.inspect() == []


def test_a_late_join_of_a_hold_that_was_released_by_its_token_is_refused(
    locks: Client, store: Flaky
) -> None:
    hold = locks.lock("x", ttl=60).acquire()
    claim = hold._lease.claim
    run_sync(across.release(locks._ctx, token.read(hold.detach())))
    assert isinstance(run_sync(store.join(claim, False, 1.0)), Gone)


def test_a_detached_hold_is_no_longer_kept_here(locks: Client, store: Flaky) -> None:
    lock = locks.lock("x", ttl=60)
    hold, pending = lock.acquire(), list[int]()
    change = store.change

    async def noted(asked: Any, within: float) -> Any:
        pending.append(locks._ctx.keeper.pending())
        return await change(asked, within)

    store.change = noted  # type: ignore[method-assign]
    text = hold.detach()
    assert pending == [0]  # no renewal can overtake it
    assert not lock._given
    locks.adopt(text).release()


def test_a_hold_that_was_entered_twice_is_not_detached(locks: Client) -> None:
    lock = locks.rwlock("x").read
    with lock as hold, lock, pytest.raises(NotSupported, match="belongs to its thread"):
        hold.detach()


def test_what_the_renewer_has_to_do_is_counted(locks: Client, store: Flaky) -> None:
    with locks.lock("x", ttl=60):
        other = locks.lock("y", ttl=0.5).acquire()
        store.down = {"leave"}
        with pytest.raises(StoreUnavailable):
            other.release()
        assert locks._ctx.keeper.pending() == 2
        store.mend()


def test_a_refused_claim_needs_no_withdrawal(locks: Client, store: Flaky) -> None:
    with locks.semaphore("x", 2), pytest.raises(CapacityMismatch) as refused:
        locks.semaphore("x", 3, weight=3).acquire()
    assert "and a weight of 3" in str(refused.value)
    assert store.calls["leave"] == 1  # of the hold
    with locks.semaphore("x", 2), pytest.raises(CapacityMismatch) as refused:
        locks.semaphore("x", 3, weight=2).acquire()
    assert "weight" not in str(refused.value)


def test_the_error_of_a_busy_lock_counts_the_waiters(two: tuple[Client, Client]) -> None:
    holder, other = two
    with holder.lock("x", ttl=60):
        with pytest.raises(NotAcquired) as busy, other.lock("x", timeout=0.05):
            pass
        assert "waiting" not in str(busy.value)
        thread = threading.Thread(target=lambda: other.lock("x").acquire(timeout=20).release())
        thread.start()
        until(lambda: holder.inspect("x")[0].waiters, "it waits")
        with pytest.raises(NotAcquired, match=", 1 waiting"), other.lock("x", timeout=0.05):
            pass
    thread.join(20)


def test_the_child_of_a_fork_has_none_of_the_data_in_memory(space: str) -> None:
    with Client(space) as client:
        client.guard("g", ttl=60).get(lambda: 1)
        client.queue("q").put("job")
        client.lock("x", ttl=60).acquire()

        def seen() -> list[Any]:
            return [
                client.inspect(),
                client.queue("q").jobs(),
                client.guard("g", ttl=60).get(lambda: 2),
            ]

        with Fork(seen) as child:
            assert child.result() == [[], [], 2]
        assert client.guard("g", ttl=60).get(lambda: 2) == 1


def test_a_longer_lease_than_the_store_gives_needs_renewals(space: str) -> None:
    once: dict[str, Any] = {"auto_renew": False}
    with Client(space) as client, Client(space, ttl=60) as other:
        for one in (client, other):
            behind(one).lease_max = 10.0
        for options in ({"ttl": 60, "on_lost": print}, once, {"ttl": 10, **once}):
            with client.lock("x", **options) as hold:
                assert hold.ttl == 10
        for one, options in ((client, {"ttl": 60, **once}), (other, once)):
            with pytest.raises(ConfigError, match="gives no lease of more than 10 s"):
                one.lock("x", **options)
