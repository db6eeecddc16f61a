"""Waiters without a listener, and addresses of all kinds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.core.model import Gone, Keep, Loss, Waiting
from holdfast.stores.redis import replies
from holdfast.stores.redis.library import packed
from tests.servers.fixtures import NewRedis
from tests.stores.redis.verbs import Verbs, claim, fence, permit, ticket


class Ear:
    """A subscriber of one address."""

    address = b"ear"

    def __init__(self, verbs: Verbs) -> None:
        self._pushes = verbs.client.pubsub()
        self._pushes.subscribe(self.address)
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


@pytest.fixture
def ear(verbs: Verbs) -> Iterator[Ear]:
    one = Ear(verbs)
    yield one
    one.close()


def test_one_leave_skips_one_waiter_without_a_listener(verbs: Verbs, ear: Ear) -> None:
    # Given four waiters; the clients of the first three are connecting again and don't listen
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


def test_of_several_waiters_without_a_listener_one_is_skipped(verbs: Verbs, ear: Ear) -> None:
    # Given one holder of both permits, and three waiters, the first two without a listener
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


def test_an_address_that_comes_later_is_used(verbs: Verbs, ear: Ear) -> None:
    one, two = claim(), claim()
    verbs.join(one)
    waits = ticket(verbs.join(two))
    verbs.stand(Keep(two, 0, 30.0), ear.address)
    verbs.stand(Keep(two, 0, 30.0))
    verbs.gone(one)
    assert ear.heard() == [(two.id, waits)]


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
