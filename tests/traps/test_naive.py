"""The traps: common locks on Redis break in the order of events of each test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.testing.faults import Subject
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.traps.amnesia import NewWatched, evict
from tests.traps.naive import (
    LEASE_S,
    DeleteAnyway,
    ExistsThenSet,
    GetThenDelete,
    LockThenLook,
    Naive,
    SetAndExpireTogether,
    SetNx,
    SetThenExpire,
    Timestamp,
)

Made = Callable[..., Any]


@pytest.fixture
def plain(shared_redis: RedisServer) -> Iterator[Made]:
    """Return a function that makes a naive lock with a separate client."""
    with contextlib.ExitStack() as ends:

        def make(kind: type[Naive], *between: Callable[[], object], **options: float) -> Any:
            return kind(ends.enter_context(shared_redis.client()), *between, **options)

        yield make


def run_out(server: RedisServer, name: str) -> None:
    """Let the lease of a naive lock expire."""
    server.ask("PEXPIRE", name, 1)
    until(lambda: not server.ask("EXISTS", name), "its lease has expired")


# -- acquiring ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, left_by", [(ExistsThenSet, {}), (Timestamp, {"ahead": -2 * LEASE_S})]
)
def test_a_check_before_the_set_lets_two_in(
    kind: type[Naive], left_by: dict[str, float], plain: Made, own_name: str
) -> None:
    # Given a free name, or a lock whose timestamp has expired
    if left_by:
        assert plain(kind, **left_by).acquire(own_name)
    second = plain(kind)
    got: list[bool] = []
    first = plain(kind, lambda: got.append(second.acquire(own_name)))
    # When the second client runs between the check and the set of the first one
    got.append(first.acquire(own_name))
    assert got == [True, True]


def test_a_death_between_setnx_and_expire_leaves_a_lock_without_an_end(
    plain: Made, shared_redis: RedisServer, own_name: str
) -> None:
    with Subject("tests.traps.workers:sets_then_expires", shared_redis.port, own_name) as one:
        assert one.hear() == "between"
        one.kill()
    assert shared_redis.ask("PTTL", own_name) == -1
    assert not plain(SetThenExpire).acquire(own_name)


def test_losers_of_a_multi_extend_the_lease_of_a_dead_winner(
    plain: Made, shared_redis: RedisServer, own_name: str
) -> None:
    assert plain(SetAndExpireTogether).acquire(own_name)
    shared_redis.ask("PEXPIRE", own_name, LEASE_S * 400)
    assert not plain(SetAndExpireTogether).acquire(own_name)
    # Then the lease never ends while any client tries
    assert shared_redis.ask("PTTL", own_name) > LEASE_S * 500


def test_a_clock_that_is_ahead_takes_a_fresh_timestamp_for_a_stale_one(
    plain: Made, own_name: str
) -> None:
    assert plain(Timestamp).acquire(own_name)
    assert plain(Timestamp, ahead=3600).acquire(own_name)


# -- releasing ---------------------------------------------------------------------------------


def test_a_late_release_removes_the_lock_of_another_client(
    plain: Made, shared_redis: RedisServer, own_name: str
) -> None:
    other = plain(SetNx)

    def pass_on() -> None:
        """Another client gets the lock, because its holder works longer than the lease."""
        run_out(shared_redis, own_name)
        assert other.acquire(own_name)

    # Given a client that is late before its DEL, or between its GET and its DEL
    for late in (plain(DeleteAnyway), plain(GetThenDelete, pass_on)):
        assert late.acquire(own_name)
        if isinstance(late, DeleteAnyway):
            pass_on()
        late.release(own_name)
        # Then a third client is granted next to the holder
        assert plain(SetNx).acquire(own_name)
        shared_redis.ask("DEL", own_name)


# -- a server that forgets ---------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["restart", "FLUSHDB", "eviction"])
def test_a_server_that_forgets_frees_a_lock_of_set_nx(loss: str, new_redis: NewRedis) -> None:
    server = new_redis("maxmemory-policy allkeys-random")
    losses = {
        "restart": lambda: server.restart(data=False),
        "FLUSHDB": lambda: server.ask("FLUSHDB"),
        "eviction": lambda: evict(server),
    }
    with server.client() as one, server.client() as two:
        assert SetNx(one).acquire("x")
        losses[loss]()
        assert SetNx(two).acquire("x")


def test_a_lagging_replica_forgets_a_lock_of_set_nx(new_watched: NewWatched) -> None:
    watched = new_watched(replicas=1, sentinels=0)
    primary, (replica,) = watched.primary, watched.replicas
    with primary.client() as one, replica.client() as two:
        watched.cut_off()
        assert SetNx(one).acquire("x")
        primary.kill()
        watched.promote(replica)
        assert SetNx(two).acquire("x")


# -- cached values -----------------------------------------------------------------------------


def test_the_holder_of_a_naive_lock_blocks_all_readers_of_the_value(
    plain: Made, shared_redis: RedisServer, own_name: str
) -> None:
    shared_redis.ask("SET", own_name, "1")
    others: list[bytes | None] = []
    behind = plain(LockThenLook)
    paused = plain(LockThenLook, lambda: others.append(behind.get(own_name)))
    assert paused.get(own_name) == b"1"
    assert others == [None]
