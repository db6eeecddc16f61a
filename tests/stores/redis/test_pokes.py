"""Which waiters are woken, and what happens to waiters without a listener."""

from __future__ import annotations

import pytest

from holdfast.core.model import (
    Gone,
    Held,
    Keep,
    Loss,
    Waiting,
)
from holdfast.core.policy import PATIENCE_S
from holdfast.stores.redis import replies
from holdfast.stores.redis.library import packed
from tests.servers.fixtures import NewRedis
from tests.stores.redis.verbs import START, Verbs, claim, fence, permit, ticket


class Ear:
    """A subscriber of one address."""

    def __init__(self, verbs: Verbs, address: bytes = b"ear") -> None:
        self.address = address
        self._pushes = verbs.client.pubsub()
        self._pushes.subscribe(address)
        self._pushes.get_message(timeout=9)

    def heard(self) -> list[tuple[str, int] | None]:
        """Return the wake-ups that have come since the last call."""
        seen = []
        self._pushes.ping()
        while (message := self._pushes.get_message(timeout=9))["type"] != "pong":
            seen.append(replies.poked(message["data"]))
        return seen

    def close(self) -> None:
        """Stop listening."""
        self._pushes.close()


def test_a_grant_is_published_once_although_others_join(verbs: Verbs) -> None:
    # Given two waiters whose address has a listener
    ear = Ear(verbs)
    one, two, three = claim(), claim(), claim()
    verbs.join(one)
    second = ticket(verbs.join(two, address=ear.address))
    third = ticket(verbs.join(three, address=ear.address))
    # When the holder releases, and others join before the woken waiter has sent anything
    assert verbs.gone(one)
    for _ in range(5):
        assert isinstance(verbs.join(claim()), Waiting)
    # Then that waiter was woken once, with its whole ticket, and no other waiter was
    assert ear.heard() == [(two.id, second)]
    assert second > 10**15
    assert verbs.gone(two)
    assert ear.heard() == [(three.id, third)]
    ear.close()


def test_nothing_is_published_without_waiters(verbs: Verbs) -> None:
    server_calls = verbs.client.info("commandstats")
    for _ in range(10):
        one = claim()
        verbs.join(one)
        verbs.keep([Keep(one, 0, 30.0)])
        verbs.gone(one)
    assert "cmdstat_publish" not in server_calls
    assert "cmdstat_publish" not in verbs.client.info("commandstats")


def test_a_push_grants_no_lease(verbs: Verbs) -> None:
    # Given a waiter that has waited for a second
    one, two = claim(), claim()
    verbs.join(one)
    verbs.join(two)
    verbs.at(START + 1.0)
    # When it is granted
    verbs.gone(one)
    # Then it holds for the rest of its waiter TTL
    assert verbs.join(two) == Held(verbs.look().holders[0].fence, PATIENCE_S - 1.0)  # type: ignore[union-attr]
    verbs.at(START + PATIENCE_S)
    assert verbs.stand(Keep(two, 0, 30.0)) == Gone(Loss.EXPIRED)


def test_one_leave_skips_one_waiter_without_a_listener(verbs: Verbs) -> None:
    # Given four waiters; the clients of the first three are connecting again and don't listen
    ear = Ear(verbs)
    first = claim()
    verbs.join(first)
    waiting = [claim() for _ in range(4)]
    for one in waiting[:3]:
        verbs.join(one, address=b"deaf")
    verbs.join(waiting[3], address=ear.address)
    # When the holder releases
    assert verbs.gone(first)
    # Then the first is skipped, and the second holds, though no client received its wake-up
    line = verbs.look()
    assert line is not None
    assert [c.held for c in line.claims] == [True, False, False]
    assert verbs.stand(Keep(waiting[0], 0, 30.0)) == Gone(Loss.EXPIRED)
    assert fence(verbs.stand(Keep(waiting[1], 0, 30.0)))
    # And the order of the others is unchanged
    assert isinstance(verbs.stand(Keep(waiting[2], 0, 30.0)), Waiting)
    assert ear.heard() == []
    ear.close()


def test_of_several_waiters_without_a_listener_one_is_skipped(verbs: Verbs) -> None:
    # Given one holder of both permits, and three waiters, the first two without a listener
    ear = Ear(verbs)
    first = permit(2, 2)
    verbs.join(first)
    waiting = [permit(2) for _ in range(3)]
    for one in waiting[:2]:
        verbs.join(one, address=b"deaf")
    last = ticket(verbs.join(waiting[2], address=ear.address))
    # When the holder releases
    assert verbs.gone(first)
    # Then the first is skipped, and the third is granted in its place
    assert verbs.stand(Keep(waiting[0], 0, 30.0)) == Gone(Loss.EXPIRED)
    assert fence(verbs.stand(Keep(waiting[1], 0, 30.0)))
    assert ear.heard() == [(waiting[2].id, last)]
    ear.close()


@pytest.mark.parametrize("dead", [1, 3])
def test_dead_waiters_are_neither_granted_nor_woken(dead: int, verbs: Verbs) -> None:
    # Given some dead waiters, and a living one behind them
    ear = Ear(verbs)
    first, alive = claim(), claim()
    verbs.join(first)
    for _ in range(dead):
        verbs.join(claim(), address=ear.address)
    verbs.at(START + PATIENCE_S - 0.1)
    waits = ticket(verbs.join(alive, address=ear.address))
    verbs.at(START + PATIENCE_S)
    # When the holder releases, then the living waiter holds immediately
    assert verbs.gone(first)
    assert ear.heard() == [(alive.id, waits)]
    (row,) = verbs.look().claims  # type: ignore[union-attr]
    assert (row.fence, row.held) == (waits, True)
    ear.close()


def test_a_waiter_without_an_address_is_never_skipped(verbs: Verbs) -> None:
    one, two = claim(), claim()
    verbs.join(one)
    verbs.join(two)
    verbs.gone(one)
    assert fence(verbs.stand(Keep(two, 0, 30.0)))


def test_an_address_that_comes_later_is_used(verbs: Verbs) -> None:
    ear = Ear(verbs)
    one, two = claim(), claim()
    verbs.join(one)
    waits = ticket(verbs.join(two))
    verbs.stand(Keep(two, 0, 30.0), ear.address)
    verbs.stand(Keep(two, 0, 30.0))
    verbs.gone(one)
    assert ear.heard() == [(two.id, waits)]
    ear.close()


def test_a_server_without_the_right_to_publish_still_grants(new_redis: NewRedis) -> None:
    server = new_redis(users=("user mute on >secret ~* resetchannels +@all",))
    with Verbs(server) as verbs:
        verbs.raw(b"AUTH mute secret\r\n")
        one, two = claim(), claim()
        verbs.join(one)
        verbs.join(two, address=b"somewhere")
        assert verbs.gone(one)
        assert fence(verbs.stand(Keep(two, 0, 30.0)))


def test_a_waiter_with_a_sharded_address_is_woken_there(new_redis: NewRedis) -> None:
    server = new_redis()
    address = b"{17}ear"
    with Verbs(server) as verbs, Verbs(server, load=False) as ear:
        ear.raw(packed(b"SSUBSCRIBE", address))
        one, two, three = permit(2, 2), permit(2, 2), permit(2)
        verbs.join(one)
        tickets = [ticket(verbs.join(c, address=address)) for c in (two, three)]
        for left, served, wanted in zip((one, two), (two, three), tickets, strict=True):
            assert verbs.gone(left)
            kind, where, message = ear.raw(b"")
            assert (kind, where) == (b"smessage", address)
            assert replies.poked(message) == (served.id, wanted)
