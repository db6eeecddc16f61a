"""The schedule of renewals: leases are renewed in time, in full batches, and not much too early."""

from __future__ import annotations

import random
import threading

import pytest

from holdfast.core.lease import Lease, Terms
from holdfast.core.model import Claim, Kind, Spec
from holdfast.core.schedule import EARLY_PART, RETRY_SOON_S, Schedule

#: The ttl of the leases here, unless a test sets another; such leases are renewed each second.
TTL_S = 3.0


def lease(name: str = "x", ttl: float = TTL_S, until: float = 1e9) -> Lease:
    spec = Spec(name, Kind.LOCK, 1, 1, ttl, "me")
    return Lease(Claim("0" * 32, spec), 1, until, 0.0, Terms(), False)


def taken(schedule: Schedule, now: float, most: int = 100) -> list[str]:
    batch: list[Lease] = []
    schedule.take(now, most, batch)
    return [one.claim.spec.name for one in batch]


def spread(over: float, count: int) -> Schedule:
    """Return a schedule of ``count`` leases that fall due in the ``over`` seconds after 100."""
    schedule = Schedule()
    for number in range(count):
        schedule.add(lease(f"{number}"), 100.0 + over * number / count)
    return schedule


def test_what_is_due_takes_along_what_will_be_soon() -> None:
    schedule = spread(over=1.0, count=100)
    assert taken(schedule, 99.999) == []
    assert taken(schedule, 100.0) == [f"{number}" for number in range(6)]
    assert len(schedule) == 94
    # And the next leases stay until they are due
    assert taken(schedule, 100.001) == []
    assert next(schedule.soonest()) == pytest.approx(100.06)


def test_renewals_gather_in_full_batches_and_stay_together() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    # Given a thousand leases that were added at random times
    schedule = Schedule()
    for due in sorted(100.0 + chance.random() for _ in range(1000)):
        schedule.add(lease(), due)
    now, sizes = 100.0, []
    # When they are renewed for ten seconds, by a renewer that sleeps in between
    while now < 110.0:
        batch: list[Lease] = []
        schedule.take(now, 25, batch)
        if batch:
            sizes.append(len(batch))
            assert all(one.due <= now + EARLY_PART for one in batch)
            assert all(one.due >= now - 1e-6 for one in batch)
            schedule.add_renewed(batch, now)
        else:
            now = min(schedule.soonest())
    # Then each lease was renewed each second or a little earlier, and nearly all batches were full
    assert 10_000 <= sum(sizes) + 1000 <= 11_500
    assert sum(sizes) / len(sizes) > 20


def test_the_nearest_deadline_comes_first_whatever_its_length_is() -> None:
    schedule = Schedule()
    schedule.add(lease("long", 30.0, until=120.0), 100.0)
    schedule.add(lease("short", 3.0, until=102.0), 100.02)
    schedule.add_own(lease("again", 30.0, until=101.0), 99.0)
    assert taken(schedule, 100.0) == ["again", "short", "long"]


def test_what_is_dropped_or_released_is_not_taken() -> None:
    schedule = Schedule()
    kept, dropped, closing, ended = (lease(name) for name in ("kept", "dropped", "closing", "own"))
    for one in (dropped, closing, kept):
        schedule.add(one, 100.0)
    schedule.drop(dropped)
    closing.closing = True
    own = lease("own time")
    for one in (ended, own):
        schedule.add_own(one, 100.0)
    ended.closing = True
    schedule.drop(own)
    assert taken(schedule, 100.0) == ["kept"]
    # A lease that was released during its renewal is not added, either
    schedule.add_renewed([closing, kept], 100.0)
    assert len(schedule) == 1
    assert (closing.renewing, kept.renewing) == (False, True)


def test_other_threads_may_add_and_drop_while_it_is_emptied() -> None:
    # Given threads that add leases and drop every second one again
    schedule = Schedule()
    kept: list[Lease] = []

    def work() -> None:
        for number in range(3000):
            one = lease()
            schedule.add(one, 100.0)
            if number % 2:
                one.closing = True
                schedule.drop(one)
            else:
                kept.append(one)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    # When the renewer takes batches at the same time, and hastens all
    found: list[Lease] = []
    while any(thread.is_alive() for thread in threads) or len(schedule):
        batch: list[Lease] = []
        schedule.hasten(0.0)
        schedule.take(0.0, 100, batch)
        found += batch
    # Then it gets each of the other leases once
    assert sorted(map(id, (one for one in found if not one.closing))) == sorted(map(id, kept))


@pytest.mark.parametrize("again", ["renewed", "extended"])
def test_what_is_put_at_a_time_of_its_own_hides_nothing_in_its_queue(again: str) -> None:
    # Given three leases in the queue of one length
    schedule = Schedule()
    first, own, last = (lease(name) for name in ("first", "own", "last"))
    for number, one in enumerate((first, own, last)):
        schedule.add(one, 101.0 + number / 10)
    # When one of them gets an individual time, and is renewed at that time
    schedule.add_own(own, 100.5)
    assert taken(schedule, 100.5) == ["own"]
    if again == "renewed":
        schedule.add_renewed([own], 100.5)
    else:
        schedule.add(own, 101.5)
    assert taken(schedule, 101.0) == ["first"]
    # Then the lease behind it is still due at its time
    assert taken(schedule, 101.2) == ["last"]
    assert taken(schedule, 101.5) == ["own"]
    assert len(schedule) == 0


def test_all_that_is_renewed_can_be_made_due_at_once() -> None:
    schedule = Schedule()
    queued, own, closing, fixed = (lease(name) for name in ("queued", "own", "closing", "fixed"))
    fixed.renewing = False
    for one in (queued, closing):
        schedule.add(one, 105.0)
    closing.closing = True
    for one in (own, fixed):
        schedule.add_own(one, 106.0)
    schedule.hasten(100.0)
    assert sorted(taken(schedule, 100.0)) == ["own", "queued"]
    assert taken(schedule, 106.0) == ["fixed"]


def test_only_a_failed_renewal_that_is_due_soon_is_trouble() -> None:
    schedule, one = Schedule(), lease()
    assert not schedule.in_trouble(100.0)
    schedule.add_own(one, 100.0)
    assert not schedule.in_trouble(100.0)
    one.failures = 1
    assert schedule.in_trouble(100.1 - RETRY_SOON_S)
    assert not schedule.in_trouble(99.9 - RETRY_SOON_S)
