"""How a waiter is notified of its grant, and how it handles each message."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import pytest

from holdfast.core.model import (
    RWLOCK_CAPACITY,
    Claim,
    Granted,
    Held,
    Keep,
    Kind,
    Leave,
    Spec,
    Waiting,
)
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.stores.redis import open_blocking
from holdfast.stores.redis.blocking.port import ThreadPort
from holdfast.stores.redis.store import RedisStore
from holdfast.testing import lag
from holdfast.url import find
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.stores.redis.conftest import eventually

lag.watch()

WITHIN_S = 5.0


def claim(name: str) -> Claim:
    return Claim(secrets.token_hex(16), Spec(name, Kind.LOCK, 1, 1, 30.0, "me"))


class Desk:
    """A store whose verbs are plain calls."""

    def __init__(self, url: str) -> None:
        store = open_blocking(find(url)[1])
        assert isinstance(store, RedisStore)
        assert isinstance(store._port, ThreadPort)
        self.store, self.port = store, store._port

    def join(self, wanted: Claim) -> Held | Waiting:
        answer = run_sync(self.store.join(wanted, True, WITHIN_S))
        assert isinstance(answer, Held | Waiting)
        return answer

    def leave(self, wanted: Claim) -> bool:
        leave = Leave(wanted.spec.name, wanted.id, 0)
        return run_sync(self.store.leave(leave, WITHIN_S))

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


def test_a_leave_notifies_the_next_waiter_of_its_grant(desk: Desk, own_name: str) -> None:
    first, second = claim(own_name), claim(own_name)
    desk.join(first)
    waiting = desk.join(second)
    assert isinstance(waiting, Waiting)
    assert desk.leave(first)
    begun = boottime()
    assert heard(desk, second, waiting) == Granted(waiting.ticket)
    assert boottime() - begun < 1.0 + lag.since(begun)


def test_a_wait_of_zero_seconds_returns_a_received_push(desk: Desk, own_name: str) -> None:
    first, second = claim(own_name), claim(own_name)
    desk.join(first)
    waiting = desk.join(second)
    assert isinstance(waiting, Waiting)
    assert desk.wait(second, waiting, 0.0) is None
    desk.leave(first)
    eventually(lambda: desk.wait(second, waiting, 0.0) == Granted(waiting.ticket))


def test_a_wake_up_for_another_ticket_or_claim_is_ignored(
    desk: Desk, shared_redis: RedisServer, own_name: str
) -> None:
    # Given
    first, second = claim(own_name), claim(own_name)
    desk.join(first)
    waiting = desk.join(second)
    assert isinstance(waiting, Waiting)
    address = desk.address(second)
    # When it receives wake-ups for an earlier ticket, for another claim, and without meaning
    for text in (f"{second.id} {waiting.ticket - 1}", f"{first.id} {waiting.ticket}", "", "x"):
        assert shared_redis.ask("PUBLISH", address, text) == 1
    # Then it continues to sleep
    begun = time.monotonic()
    assert desk.wait(second, waiting, 0.2) is None
    assert time.monotonic() - begun >= 0.15
    # And it is woken by its own wake-up
    assert shared_redis.ask("PUBLISH", address, f"{second.id} {waiting.ticket}") == 1
    assert heard(desk, second, waiting) == Granted(waiting.ticket)


def test_an_unexpected_wake_up_is_not_taken_for_a_reply(desk: Desk, own_name: str) -> None:
    # Given a waiter that is granted, and that stops listening before it reads the wake-up
    first, second = claim(own_name), claim(own_name)
    desk.join(first)
    assert isinstance(desk.join(second), Waiting)
    desk.leave(first)
    desk.store.unlisten(second)
    # When its connection is used for other requests, again and again
    for _ in range(5):
        third = claim(own_name + ":2")
        assert isinstance(desk.join(third), Held)
        assert desk.leave(third)
    # Then
    assert desk.leave(second)


def test_a_connection_that_died_is_made_again_under_the_same_address(
    desk: Desk, shared_redis: RedisServer, own_name: str
) -> None:
    # Given
    first, second = claim(own_name), claim(own_name)
    desk.join(first)
    waiting = desk.join(second)
    assert isinstance(waiting, Waiting)
    address = desk.address(second)
    # When
    shared_redis.ask("CLIENT", "KILL", "TYPE", "pubsub")
    begun = boottime()
    assert desk.wait(second, waiting, 5.0) is None
    assert boottime() - begun < 1.0 + lag.since(begun)
    assert shared_redis.ask("PUBSUB", "NUMSUB", address) == [address, 0]
    # Then its next request connects it again, in its old place
    (answer,) = run_sync(desk.store.keep([keep(second, waiting)], WITHIN_S))
    assert isinstance(answer, Waiting)
    assert answer.ticket == waiting.ticket
    assert desk.address(second) == address
    assert shared_redis.ask("PUBSUB", "NUMSUB", address) == [address, 1]
    desk.leave(first)
    assert heard(desk, second, answer) == Granted(waiting.ticket)


def keep(wanted: Claim, waiting: Waiting) -> Keep:
    return Keep(wanted, waiting.ticket, wanted.spec.ttl)


def test_one_connection_is_enough_for_one_after_the_other(
    desk: Desk, shared_redis: RedisServer, own_name: str
) -> None:
    """The connection stays subscribed, so the next wait on it costs no further round trip."""
    first, second, third = (claim(own_name) for _ in range(3))
    desk.join(first)
    desk.join(second)
    address = desk.address(second)
    desk.store.unlisten(second)
    desk.leave(second)
    before = shared_redis.calls()
    desk.join(third)
    after = shared_redis.calls()
    assert desk.address(third) == address
    assert after["evalsha"] - before["evalsha"] == 1
    assert after["subscribe"] == before["subscribe"]


def test_a_waiter_without_the_right_to_subscribe_polls(new_redis: NewRedis, own_name: str) -> None:
    # Given a user without any channel
    server = new_redis(users=("user app on >secret ~* resetchannels +@all",))
    desk = Desk(server.url_for("app", "secret"))
    first, second = claim(own_name), claim(own_name)
    desk.join(first)
    waiting = desk.join(second)
    assert isinstance(waiting, Waiting)
    # When
    desk.leave(first)
    # Then
    assert desk.wait(second, waiting, 0.01) is None
    (answer,) = run_sync(desk.store.keep([keep(second, waiting)], WITHIN_S))
    assert isinstance(answer, Held)
    run_sync(desk.store.close())


def test_a_writer_that_leaves_grants_all_readers_at_once(desk: Desk, own_name: str) -> None:
    # Given a writer and six readers behind it
    def of_weight(weight: int) -> Claim:
        spec = Spec(own_name, Kind.RWLOCK, RWLOCK_CAPACITY, weight, 30.0, "me")
        return Claim(secrets.token_hex(16), spec)

    writer = of_weight(RWLOCK_CAPACITY)
    assert isinstance(desk.join(writer), Held)
    readers = [of_weight(1) for _ in range(6)]
    for reader in readers:
        assert isinstance(desk.join(reader), Waiting)
    # When the writer releases
    desk.leave(writer)
    # Then all six hold without asking
    (line,) = run_sync(desk.store.inspect(own_name, WITHIN_S, True))
    assert [one.held for one in line.claims] == [True] * 6
    for reader in readers:
        desk.leave(reader)
