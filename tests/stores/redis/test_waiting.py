"""A waiter is notified of its grant, and handles each message."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.core.model import (
    RWLOCK_CAPACITY,
    Claim,
    Granted,
    Held,
    Kind,
    Leave,
    Standing,
    Waiting,
)
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.stores.redis import open_blocking
from holdfast.stores.redis.blocking.port import ThreadPort
from holdfast.stores.redis.store import RedisStore
from holdfast.testing import lag
from holdfast.url import find
from tests.servers.redis_server import RedisServer
from tests.stores.redis.verbs import claim

lag.watch()

WITHIN_S = 5.0


class Desk:
    """A store whose verbs are plain calls."""

    def __init__(self, url: str) -> None:
        store = open_blocking(find(url)[1])
        assert isinstance(store, RedisStore)
        assert isinstance(store._port, ThreadPort)
        self.store, self.port = store, store._port

    def hold(self, wanted: Claim) -> None:
        answer = run_sync(self.store.join(wanted, True, WITHIN_S))
        assert isinstance(answer, Held)

    def stand(self, wanted: Claim) -> Waiting:
        answer = run_sync(self.store.join(wanted, True, WITHIN_S))
        assert isinstance(answer, Waiting)
        return answer

    def line_up(self, name: str) -> tuple[Claim, Claim, Waiting]:
        """Return a holder, a waiter, and the replies that the waiter got."""
        first, second = claim(name), claim(name)
        self.hold(first)
        return first, second, self.stand(second)

    def leave(self, wanted: Claim) -> bool:
        leave = Leave(wanted.spec.name, wanted.id, 0)
        return run_sync(self.store.leave(leave, WITHIN_S))

    def turn(self, wanted: Claim, waiting: Waiting) -> Standing:
        return run_sync(self.store.turn(wanted, waiting.ticket, WITHIN_S))

    def wait(self, wanted: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        return run_sync(self.store.wait(wanted, waiting, seconds))

    def address(self, wanted: Claim) -> bytes:
        assert wanted.id in self.port._ear.boxes
        return self.port._address


def heard(desk: Desk, waiter: Claim, waiting: Waiting) -> Granted | None:
    """Return the grant that the waiter receives within five seconds, however often it is woken."""
    end = boottime() + WITHIN_S
    found = None
    while found is None and boottime() < end:
        found = desk.wait(waiter, waiting, end - boottime())
    return found


@pytest.fixture(params=[3, 2], ids=["resp3", "resp2"])
def desk(request: pytest.FixtureRequest, redis_url: str) -> Iterator[Desk]:
    one = Desk(f"{redis_url}?protocol={request.param}")
    yield one
    run_sync(one.store.close())


def test_a_wake_up_for_another_ticket_or_claim_is_ignored(
    desk: Desk, shared_redis: RedisServer, own_name: str
) -> None:
    first, second, waiting = desk.line_up(own_name)
    address = desk.address(second)
    # When it receives wake-ups for an earlier ticket, for another claim, and without meaning
    for text in (f"{second.id} {waiting.ticket - 1}", f"{first.id} {waiting.ticket}", "", "x"):
        assert shared_redis.ask("PUBLISH", address, text) == 1
    begun = boottime()
    assert desk.wait(second, waiting, 0.2) is None
    assert boottime() - begun >= 0.15
    assert shared_redis.ask("PUBLISH", address, f"{second.id} {waiting.ticket}") == 1
    assert heard(desk, second, waiting) == Granted(waiting.ticket)


def test_a_waiter_is_woken_in_the_process_that_asked_last_for_its_turn(
    desk: Desk, redis_url: str, own_name: str
) -> None:
    first, second, waiting = desk.line_up(own_name)
    other = Desk(redis_url)
    try:
        # When another process, in which the claim hasn't joined, asks for its turn
        asked = other.turn(second, waiting)
        assert isinstance(asked, Waiting)
        assert asked.ticket == waiting.ticket
        desk.leave(first)
        # Then only this process is woken, and each process gets the same answer
        assert heard(other, second, waiting) == Granted(waiting.ticket)
        assert desk.wait(second, waiting, 0.2) is None
        for one in (other, desk):
            assert one.turn(second, waiting) == Held(waiting.ticket, second.spec.ttl)
    finally:
        run_sync(other.store.close())


@pytest.mark.usefixtures("parser")
def test_an_unexpected_wake_up_is_not_taken_for_a_reply(desk: Desk, own_name: str) -> None:
    # Given a waiter that is granted, and that stops listening before it reads the wake-up
    first, second, _ = desk.line_up(own_name)
    desk.leave(first)
    desk.store.unlisten(second)
    # When its connection is used for other requests, again and again
    for _ in range(5):
        third = claim(own_name + ":2")
        desk.hold(third)
        assert desk.leave(third)
    assert desk.leave(second)


def test_a_writer_that_leaves_grants_all_readers_at_once(desk: Desk, own_name: str) -> None:
    def of_weight(weight: int) -> Claim:
        return claim(own_name, kind=Kind.RWLOCK, capacity=RWLOCK_CAPACITY, weight=weight)

    # Given a writer and six readers behind it
    writer, *readers = (of_weight(weight) for weight in (RWLOCK_CAPACITY, 1, 1, 1, 1, 1, 1))
    desk.hold(writer)
    for reader in readers:
        desk.stand(reader)
    desk.leave(writer)
    # Then all six hold without asking
    (line,) = run_sync(desk.store.inspect(own_name, WITHIN_S, True))
    assert [one.held for one in line.claims] == [True] * 6
    for reader in readers:
        desk.leave(reader)
