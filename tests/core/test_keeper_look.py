"""The renewer checks a store that can lose acknowledged data."""

from __future__ import annotations

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.testing.clock import TestClock
from tests.core.flaky import Flaky, behind


class Forgetful(Flaky):
    """A store that asks to be checked; the test sets its replies."""

    watch_every = 2.0
    looks = 0
    news = False
    silent = odd = False

    async def changed(self, within: float) -> bool:
        """Return whether it lost data."""
        assert 0 < within <= 1
        self.looks += 1
        if self.silent:
            raise StoreUnavailable("planted")
        if self.odd:
            raise OSError("planted")
        news, self.news = self.news, False
        return news


@pytest.fixture
def store(locks: Client) -> Forgetful:
    return behind(locks, Forgetful)


def test_while_something_is_kept_the_store_is_looked_at_and_again_soon_after_a_failure(
    locks: Client, lock_clock: TestClock, store: Forgetful
) -> None:
    with locks.lock("x", ttl=60) as hold:
        lock_clock.advance(9)
        assert 3 <= store.looks <= 5
        # A look without a reply is repeated soon
        store.looks, store.silent = 0, True
        lock_clock.advance(4)
        assert store.looks >= 5
        assert store.calls["renew"] == 0
        # And the loss that the repeated check finds is still handled in time
        store.silent, store.news = False, True
        lock_clock.advance(0.6)
        assert store.calls["renew"] == 1
        hold.check()
    lock_clock.advance(20)
    looks = store.looks
    lock_clock.advance(60)
    assert store.looks == looks


def test_when_it_has_lost_something_all_is_renewed_at_once(
    locks: Client, lock_clock: TestClock, store: Forgetful
) -> None:
    holds = [locks.lock(f"{n}", ttl=ttl).acquire() for n, ttl in enumerate((30, 60, 60, 300))]
    fixed = locks.lock("fixed", ttl=60, auto_renew=False).acquire()
    renewed: set[str] = set()
    store.before_renew = lambda renewals: renewed.update(one.claim.spec.name for one in renewals)
    lock_clock.advance(1)
    store.news = True
    lock_clock.advance(2.5)
    assert renewed == {"0", "1", "2", "3"}
    # And this happens once: after that they are renewed as before
    renewed.clear()
    lock_clock.advance(5)
    assert not renewed
    lock_clock.advance(5)
    assert renewed == {"0"}
    for hold in [*holds, fixed]:
        hold.check()
        hold.release()


def test_a_check_that_fails_in_an_odd_way_renews_nothing_and_is_repeated(
    locks: Client, lock_clock: TestClock, store: Forgetful, caplog: pytest.LogCaptureFixture
) -> None:
    with locks.lock("x", ttl=60):
        store.odd = True
        lock_clock.advance(5)
        assert "the check for lost data failed" in caplog.text
        assert store.looks == 2
        assert store.calls["renew"] == 0
