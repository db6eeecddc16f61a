"""Traps of the server: a restart without data, or a promoted replica that lags behind."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest
import redis

from holdfast import Client, ConfigError, Hold, StoreUnavailable
from tests.servers.clock import Clock
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.torture.scale import times
from tests.traps.amnesia import (
    RECLAIM_S,
    STRICT_S,
    NewWatched,
    demote,
    following,
    move,
    tries,
    url,
    used,
)
from tests.traps.naive import SetNx

RECLAIM = f"grace={RECLAIM_S}"
STRICT = ("recovery=strict", f"grace={STRICT_S}")


@pytest.fixture
def clients() -> Iterator[Callable[..., Client]]:
    """Return a function that makes clients and closes them at the end of the test."""
    with contextlib.ExitStack() as ends:
        yield lambda *args, **options: ends.enter_context(Client(*args, **options))


def lives(hold: Hold, other: Client) -> None:
    """Check that no other client is granted until long after the grace period, and the hold
    stays."""
    assert tries(other, hold.name, time.monotonic() + 1.5 * RECLAIM_S) is None
    hold.check()


def passes_on(hold: Hold, other: Client) -> None:
    """Release the hold, and check that the next fence is greater."""
    assert hold.release()
    after = other.lock(hold.name).acquire(timeout=10)
    assert after
    assert after.fence > hold.fence
    assert after.release()


# -- restart without data ----------------------------------------------------------------------


def test_a_restart_forgets_a_lock_of_set_nx(new_redis: NewRedis) -> None:
    server = new_redis()
    with server.client() as one, server.client() as two:
        assert SetNx(one).acquire("x")
        server.restart(data=False)
        assert SetNx(two).acquire("x")


def test_a_restart_without_data_ends_no_hold_of_holdfast(
    new_redis: NewRedis, clients: Callable[..., Client]
) -> None:
    server = new_redis()
    holder, other = clients(url(server.port, RECLAIM)), clients(url(server.port, RECLAIM))
    for number in range(times(50, 3)):
        # Given a holder that will not renew by itself for some time
        hold = holder.lock(f"x{number}", ttl=30).acquire(timeout=10)
        assert hold
        server.restart(data=False)
        # When other clients come immediately
        lives(hold, other)
        # Then the server still shows the same holder
        (line,) = other.inspect(hold.name, exact=True)
        assert [row.fence for row in line.holders] == [hold.fence]
        passes_on(hold, other)


def test_another_application_that_flushes_its_database_costs_no_holder_its_hold(
    new_redis: NewRedis, clients: Callable[..., Client]
) -> None:
    server = new_redis()
    holder, other = clients(url(server.port, RECLAIM)), clients(url(server.port, RECLAIM))
    hold = holder.lock("x", ttl=30).acquire(timeout=10)
    assert hold
    # When the server has lost everything, and another application begins by flushing its database
    server.restart(data=False)
    with server.client(db=5) as cache:
        cache.flushdb()
    # Then the grace period doesn't end earlier because of that
    lives(hold, other)
    passes_on(hold, other)


def test_an_old_backup_ends_no_hold_of_holdfast(
    new_redis: NewRedis, clients: Callable[..., Client]
) -> None:
    server = new_redis()
    holder, other = clients(url(server.port, RECLAIM)), clients(url(server.port, RECLAIM))
    used(holder)
    server.ask("SAVE")
    hold = holder.lock("x", ttl=30).acquire()
    # When the server is restarted with an older backup
    server.kill()
    server.start()
    lives(hold, other)
    passes_on(hold, other)


# -- promotion of a replica that lags ----------------------------------------------------------


def test_a_lagging_replica_forgets_a_lock_of_set_nx(new_watched: NewWatched) -> None:
    watched = new_watched(replicas=1, sentinels=0)
    primary, (replica,) = watched.primary, watched.replicas
    with primary.client() as one, replica.client() as two:
        watched.cut_off()
        assert SetNx(one).acquire("x")
        primary.kill()
        watched.promote(replica)
        assert SetNx(two).acquire("x")


def test_the_promotion_of_a_lagging_replica_ends_no_hold_of_holdfast(
    new_watched: NewWatched, clients: Callable[..., Client]
) -> None:
    for number in range(times(50, 2)):
        with new_watched(replicas=1, sentinels=0) as watched, following(watched.primary) as at:
            primary, (replica,) = watched.primary, watched.replicas
            holder, other = clients(url(at.port, RECLAIM)), clients(url(replica.port, RECLAIM))
            used(holder)
            watched.settled()
            watched.cut_off()
            hold = holder.lock(f"x{number}", ttl=30).acquire()
            # When the primary dies, and the replica is promoted
            primary.kill()
            watched.promote(replica)
            move(at, replica)
            lives(hold, other)
            passes_on(hold, other)


def test_nor_when_the_others_are_connected_to_it_since_long_before(
    new_watched: NewWatched, clients: Callable[..., Client]
) -> None:
    for number in range(times(50, 2)):
        with new_watched(replicas=1, sentinels=0) as watched, following(watched.primary) as at:
            # Given a client that is connected to a primary that becomes a replica
            first, (second,) = watched.primary, watched.replicas
            holder, other = clients(url(at.port, RECLAIM)), clients(url(first.port, RECLAIM))
            used(other)
            demote(watched, first, second)
            move(at, second)
            used(holder)
            watched.settled()
            watched.cut_off()
            hold = holder.lock(f"x{number}", ttl=30).acquire()
            before = first.ask("INFO", "stats")["total_connections_received"]
            # When this server is promoted again, and lacks the last writes
            second.kill()
            watched.promote(first)
            again = other.lock(hold.name).acquire
            with contextlib.suppress(StoreUnavailable):
                assert again(blocking=False) is None
            # And the request used the existing connection
            assert first.ask("INFO", "stats")["total_connections_received"] == before
            move(at, first)
            lives(hold, other)
            passes_on(hold, other)


# -- data that was deleted --------------------------------------------------------------------


def test_flushdb_frees_a_lock_of_set_nx(new_redis: NewRedis) -> None:
    server = new_redis()
    with server.client() as one, server.client() as two:
        assert SetNx(one).acquire("x")
        server.ask("FLUSHDB")
        assert SetNx(two).acquire("x")


def test_flushdb_makes_no_second_holder_with_strict_recovery(
    new_redis: NewRedis, clients: Callable[..., Client]
) -> None:
    server = new_redis()
    holder, other = clients(url(server.port, *STRICT)), clients(url(server.port, *STRICT))
    for number in range(times(50, 2)):
        hold = holder.lock(f"x{number}", ttl=30).acquire(timeout=10)
        assert hold
        server.ask("FLUSHDB")
        assert tries(other, hold.name, time.monotonic() + 1.3 * STRICT_S) is None
        hold.check()
        passes_on(hold, other)


def test_flushdb_makes_no_second_holder_next_to_one_that_is_cut_off(
    new_redis: NewRedis, clients: Callable[..., Client]
) -> None:
    # Given a holder that can't reach the server
    server = new_redis()
    with following(server) as at:
        holder, other = clients(url(at.port, *STRICT)), clients(url(server.port, *STRICT))
        hold = holder.lock("x", ttl=30).acquire()
        at.hold()
        server.ask("FLUSHDB")
        # When another client is granted the lock
        after = tries(other, "x", time.monotonic() + 4 * STRICT_S)
        # Then the first client knows that it has lost the lock
        assert after
        assert hold.remaining() == 0
        at.heal()


def test_an_evicted_lock_of_set_nx_is_free(new_redis: NewRedis) -> None:
    server = new_redis("maxmemory-policy allkeys-random")
    with server.client() as one, server.client() as two:
        assert SetNx(one).acquire("x")
        evict(server)
        assert SetNx(two).acquire("x")


def evict(server: RedisServer) -> None:
    """Make the server evict all of its data."""
    server.ask("CONFIG", "SET", "maxmemory", 1)
    while server.ask("DBSIZE"):
        with contextlib.suppress(redis.ResponseError):
            server.ask("SET", "more", "x")
    server.ask("CONFIG", "SET", "maxmemory", 0)


def test_a_strict_guard_takes_no_server_that_evicts(
    new_redis: NewRedis, clients: Callable[..., Client]
) -> None:
    server = new_redis("maxmemory-policy allkeys-random", "maxmemory 100mb")
    with pytest.raises(ConfigError, match="noeviction"):
        clients(url(server.port, *STRICT)).lock("x").acquire()


def test_an_eviction_makes_no_second_holder_with_strict_recovery(
    new_redis: NewRedis, clients: Callable[..., Client]
) -> None:
    server = new_redis()
    holder, other = clients(url(server.port, *STRICT)), clients(url(server.port, *STRICT))
    hold = holder.lock("x", ttl=30).acquire()
    server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    evict(server)
    assert tries(other, "x", time.monotonic() + 1.3 * STRICT_S) is None
    hold.check()
    passes_on(hold, other)


# -- costs that recovery must not have ---------------------------------------------------------


@pytest.mark.parametrize("way", ["up for a usual lease", "recovery=off", "one client"])
def test_a_flush_before_each_test_of_a_user_costs_no_wait(
    way: str, new_redis: NewRedis, clients: Callable[..., Client], server_clock: Clock
) -> None:
    """Three ways from the docs of the store to avoid the grace period in a user's tests."""
    with server_clock.worn():
        server = new_redis()
    if way == "up for a usual lease":
        server_clock.step(32.0)
        until(lambda: server.info("server")["uptime_in_seconds"] > 30, "it is no longer young")
    option = "recovery=off" if way == "recovery=off" else RECLAIM
    one = clients(url(server.port, option))
    if way == "one client":
        used(one)
        time.sleep(RECLAIM_S)  # it has known the server for as long as the window
    slowest = 0.0
    for _ in range(times(100, 20)):
        server.ask("FLUSHDB")
        begun = time.monotonic()
        client = one if way == "one client" else clients(url(server.port, option))
        with client.lock("x"):
            slowest = max(slowest, time.monotonic() - begun)
    assert slowest < 0.5 * RECLAIM_S


def test_the_first_lock_on_a_server_that_is_up_for_a_usual_lease_costs_no_wait(
    new_redis: NewRedis, clients: Callable[..., Client], server_clock: Clock
) -> None:
    with server_clock.worn():
        server = new_redis(known=False)
    server_clock.step(32.0)
    until(lambda: server.info("server")["uptime_in_seconds"] > 30, "it is up for half a minute")
    hold = clients(server.url).lock("x").acquire(blocking=False)
    assert hold
    assert hold.release()


def test_the_error_of_a_new_server_gives_the_reason_for_no_grant(
    new_redis: NewRedis, clients: Callable[..., Client]
) -> None:
    server = new_redis(known=False)
    client = clients(server.url)
    with pytest.raises(StoreUnavailable, match=r"for \d\.\d s more: it has just restarted"):
        client.lock("x").acquire(blocking=False)
    # And a client that can wait gets the lock
    begun = time.monotonic()
    hold = client.lock("x").acquire(timeout=20)
    assert hold
    assert time.monotonic() - begun < 12
    assert hold.release()
