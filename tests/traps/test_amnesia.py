"""Traps of the server: a restart without data, or a promoted replica that lags behind."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from holdfast import AsyncClient, Client, ConfigError, Hold, StoreUnavailable
from tests.servers.clock import Clock
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.torture.scale import times
from tests.traps.amnesia import (
    GRACE_S,
    NewWatched,
    demote,
    evict,
    following,
    move,
    tries,
    url,
    used,
)

GRACE = f"grace={GRACE_S}"
STRICT = ("recovery=strict", GRACE)
MakeClient = Callable[..., Client]


@pytest.fixture
def clients() -> Iterator[MakeClient]:
    """Return a function that makes clients and closes them at the end of the test."""
    with contextlib.ExitStack() as ends:
        yield lambda *args: ends.enter_context(Client(url(*args)))


def outlasts(hold: Hold, other: Client) -> None:
    """Check that no other client is granted until long after the grace period, and the hold
    stays; then release it, and check that the next fence is greater."""
    assert tries(other, hold.name, time.monotonic() + 1.5 * GRACE_S) is None
    hold.check()
    (line,) = other.inspect(hold.name, exact=True)
    assert [row.fence for row in line.holders] == [hold.fence]
    assert hold.release()
    after = other.lock(hold.name).acquire(timeout=10)
    assert after
    assert after.fence > hold.fence
    assert after.release()


def flush_another(server: RedisServer) -> None:
    """Lose all data, and let another application flush its own database."""
    server.restart(data=False)
    with server.client(db=5) as cache:
        cache.flushdb()


def restore(server: RedisServer) -> None:
    """Restart from the backup that the server wrote before."""
    server.kill()
    server.start()


#: The server loses the hold in this way; the options of the clients; the rounds.
LOSSES: dict[str, tuple[Callable[[RedisServer], object], tuple[str, ...], int]] = {
    "restart": (lambda server: server.restart(data=False), (GRACE,), times(50, 3)),
    "restart, and a flush by another application": (flush_another, (GRACE,), 1),
    "old backup": (restore, (GRACE,), 1),
    "FLUSHDB": (lambda server: server.ask("FLUSHDB"), STRICT, times(50, 2)),
    "eviction": (evict, STRICT, 1),
}


@pytest.mark.usual(len(LOSSES))
@pytest.mark.parametrize("loss", LOSSES)
def test_a_server_that_forgets_ends_no_hold_of_holdfast(
    loss: str, new_redis: NewRedis, clients: MakeClient
) -> None:
    lose, options, rounds = LOSSES[loss]
    server = new_redis()
    holder, other = clients(server.port, *options), clients(server.port, *options)
    used(holder)
    server.ask("SAVE")
    for number in range(rounds):
        # Given a holder that will not renew by itself for some time
        hold = holder.lock(f"x{number}", ttl=30).acquire(timeout=10)
        assert hold
        lose(server)
        # When other clients come immediately
        outlasts(hold, other)


@pytest.mark.usual(1)
@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_an_empty_server_that_is_reached_long_after_its_start_costs_no_holder_its_hold(
    new_redis: NewRedis, clients: MakeClient, face: str
) -> None:
    server, grace_s = new_redis(), 2.0
    grace = f"grace={grace_s}"

    async def let_in() -> object:
        async with AsyncClient(url(server.port, grace)) as other:
            return await other.lock("x").acquire(timeout=grace_s + 2)

    with following(server) as at:
        hold = clients(at.port, grace).lock("x", ttl=30).acquire()
        # Given a server that no client can reach for some time after its start
        at.refuse()
        server.restart(data=False)
        until(lambda: server.info("server")["uptime_in_seconds"] >= 5, "it is up for longer")
        at.heal()
        # When a client that knows nothing of the earlier holds connects first
        if face == "threads":
            end = time.monotonic() + grace_s + 2
            assert tries(clients(server.port, grace), "x", end) is None
        else:
            assert asyncio.run(let_in()) is None
        # Then it isn't granted the lock, and the holder has renewed
        hold.check()
        assert hold.release()


@pytest.mark.usual(2)
@pytest.mark.parametrize("known", [False, True], ids=["new", "connected long before"])
def test_the_promotion_of_a_lagging_replica_ends_no_hold_of_holdfast(
    known: bool, new_watched: NewWatched, clients: MakeClient
) -> None:
    for number in range(times(50, 2)):
        with new_watched(replicas=1, sentinels=0) as watched, following(watched.primary) as at:
            primary, (replica,) = watched.primary, watched.replicas
            # Given another client of the replica; or one connected since it was the primary
            if known:
                primary, replica = replica, primary
            holder, other = clients(at.port, GRACE), clients(replica.port, GRACE)
            if known:
                used(other)
                demote(watched, replica, primary)
                move(at, primary)
            used(holder)
            watched.settled()
            watched.cut_off()
            hold = holder.lock(f"x{number}", ttl=30).acquire()
            before = replica.ask("INFO", "stats")["total_connections_received"]
            # When the primary dies, and the replica is promoted, which lacks the last writes
            primary.kill()
            watched.promote(replica)
            if known:
                with contextlib.suppress(StoreUnavailable):
                    assert other.lock(hold.name).acquire(blocking=False) is None
                # And the request used the existing connection
                assert replica.ask("INFO", "stats")["total_connections_received"] == before
            move(at, replica)
            outlasts(hold, other)


def test_flushdb_makes_no_second_holder_next_to_one_that_is_cut_off(
    new_redis: NewRedis, clients: MakeClient
) -> None:
    # Given a holder that can't reach the server
    server = new_redis()
    with following(server) as at:
        hold = clients(at.port, *STRICT).lock("x", ttl=30).acquire()
        at.hold()
        server.ask("FLUSHDB")
        # When another client is granted the lock
        assert tries(clients(server.port, *STRICT), "x", time.monotonic() + 4 * GRACE_S)
        # Then the first client knows that it has lost the lock
        assert hold.remaining() == 0
        at.heal()


def test_strict_recovery_accepts_no_server_that_evicts(
    new_redis: NewRedis, clients: MakeClient
) -> None:
    server = new_redis("maxmemory-policy allkeys-random", "maxmemory 100mb")
    with pytest.raises(ConfigError, match="noeviction"):
        clients(server.port, *STRICT).lock("x").acquire()


# -- costs that recovery must not have ---------------------------------------------------------


@pytest.mark.parametrize("way", ["up for a usual lease", "recovery=off", "one client"])
def test_a_flush_before_each_test_of_a_user_costs_no_wait(
    way: str, new_redis: NewRedis, clients: MakeClient, server_clock: Clock
) -> None:
    """Three ways from the docs of the store to avoid the grace period in a user's tests."""
    with server_clock.worn():
        server = new_redis(known=way != "up for a usual lease")
    if way == "up for a usual lease":
        server_clock.step(32.0)
        until(lambda: server.info("server")["uptime_in_seconds"] > 30, "it is no longer young")
        assert clients(server.port).lock("x").acquire(blocking=False).release()
    option = "recovery=off" if way == "recovery=off" else GRACE
    one = clients(server.port, option)
    if way == "one client":
        used(one)
        time.sleep(GRACE_S)  # it has known the server for as long as the window
    slowest = 0.0
    for _ in range(times(100, 20)):
        server.ask("FLUSHDB")
        begun = time.monotonic()
        with (one if way == "one client" else clients(server.port, option)).lock("x"):
            slowest = max(slowest, time.monotonic() - begun)
    assert slowest < 0.5 * GRACE_S


def test_the_error_of_a_new_server_gives_the_reason_for_no_grant(
    new_redis: NewRedis, clients: MakeClient
) -> None:
    client = clients(new_redis(known=False).port)
    with pytest.raises(StoreUnavailable, match=r"for \d\.\d s more: it has just restarted"):
        client.lock("x").acquire(blocking=False)
    # And a client that can wait gets the lock
    begun = time.monotonic()
    hold = client.lock("x").acquire(timeout=20)
    assert hold
    assert time.monotonic() - begun < 12
    assert hold.release()
