"""Recovery as programs meet it, on both faces: restarts, options, rights, and replicas."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from holdfast import Client, ConfigError, NotHeld, StoreUnavailable
from holdfast.core import across, token
from holdfast.core.context import Context
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.testing import lag
from holdfast.testing.faces import Face
from holdfast.testing.promise import promised
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.stores.redis.conftest import MakeClient, eventually
from tests.traps.amnesia import NewWatched, tries

lag.watch()

#: A grace period in which holders can renew, even if the machine stalls for a while.
LONG_S = 3.0


def url(server: RedisServer, *options: str) -> str:
    return f"{server.url}?{'&'.join(options)}"


def test_a_restart_without_data_costs_no_holder_its_hold(new_redis: NewRedis, face: Face) -> None:
    server = new_redis()
    address = url(server, f"grace={LONG_S}")

    async def main() -> None:
        async with face.client(address) as locks, face.client(address) as other:
            holds = [await locks.lock(f"x{n}", ttl=30).acquire() for n in range(600)]
            permits = [await locks.semaphore("some", 5, ttl=30).acquire() for _ in range(5)]
            server.restart(data=False)
            with pytest.raises(StoreUnavailable, match="has just restarted"):
                await other.lock("x7").acquire(blocking=False)
            with promised("one holder at a time"):
                assert await other.lock("x7").acquire(timeout=LONG_S + 1) is None
                assert await other.semaphore("some", 5).acquire(blocking=False) is None
            for hold in [*holds, *permits]:
                hold.check()
                assert await hold.release()
            # And as soon as the holds are released, others are granted
            after = await other.lock("x7").acquire(timeout=5)
            assert after
            assert after.fence > holds[7].fence
            assert await after.release()

    # A server is started by the main thread
    asyncio.run(main()) if face.name == "aio" else run_sync(main())


def test_no_token_brings_back_a_hold_that_a_restart_has_lost(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    """No client renews such a hold, so only the lost data showed whether it was still valid."""
    server = new_redis()
    locks, elsewhere = new_client(url(server, f"grace={LONG_S}")), new_client("memory://tokens")
    over = token.read(locks.lock("x", ttl=30).acquire().detach())
    run_sync(across.release(locks._ctx, over))
    ours = token.read(locks.lock("x", ttl=30).acquire().detach())
    foreign = token.read(elsewhere.lock("y", ttl=30).acquire().detach())
    server.restart(data=False)
    locks = new_client(url(server, f"grace={LONG_S}"))
    for passed, wrong in ((over, NotHeld), (ours, NotHeld), (foreign, ConfigError)):
        for verb in (across.find, across.release, renewed):
            with promised("an ended hold stays ended"), pytest.raises(wrong):
                run_sync(verb(locks._ctx, passed))
    with promised("a token alone restores no hold"):
        assert not [one for name in "xy" for one in locks.inspect(name, exact=True)]


async def renewed(ctx: Context, passed: token.Passed) -> None:
    await across.renew(ctx, passed, 30.0, ctx.now() + 30.0)


def test_a_waiter_outlasts_a_window_that_is_longer_than_a_silence_may_be(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    begun = time.monotonic()
    server = new_redis(known=False)
    with new_client(url(server, "grace=12")).lock("x"):
        assert 10 < time.monotonic() - begun < 25


def test_a_short_time_out_in_the_grace_period_is_kept(new_redis: NewRedis, face: Face) -> None:
    address = url(new_redis(known=False), "grace=30")

    async def main() -> None:
        async with face.client(address) as locks:
            begun = boottime()
            with pytest.raises(StoreUnavailable, match="grants nothing for"):
                await locks.lock("x").acquire(timeout=0.5)
            assert boottime() - begun < 5.0 + lag.since(begun)

    face.run(main, 90)


def test_without_recovery_no_client_waits_after_a_crash(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis(known=False)
    client = new_client(url(server, "recovery=off"))
    hold = client.lock("x").acquire(blocking=False)
    assert hold
    server.restart(data=False)
    assert client.lock("x").acquire(blocking=False)


def test_strict_recovery_gives_no_lease_that_is_longer_than_its_window(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis()
    client = new_client(url(server, "recovery=strict", "grace=3"))
    with client.lock("x", ttl=3600) as hold:
        assert hold.remaining() < 3
        assert hold.extend(3600) < 3
        # Renewals keep the hold all the same
        time.sleep(4)
        hold.check()
    with pytest.raises(ConfigError, match="auto_renew"):
        client.lock("x", ttl=3600, auto_renew=False)


def test_a_grant_that_no_replica_confirms_is_none(new_watched: NewWatched, face: Face) -> None:
    with new_watched(replicas=1, sentinels=0) as watched:

        async def acquired() -> None:
            async with face.client(url(watched.primary, "replicas=1")) as locks:
                assert await locks.lock("x").acquire(timeout=2)

        # Given a replica that follows, the grant is on the replica when the acquire returns
        face.run(acquired, 60)
        (replica,) = watched.replicas
        watched.cut_off()
        with pytest.raises(StoreUnavailable, match="0 of 1 replicas"):
            face.run(acquired, 60)
        # And the grant that no replica confirmed has been withdrawn
        with Client(url(watched.primary)) as other:
            eventually(lambda: tries(other, "x", time.monotonic() + 5))
        assert replica.ask("DBSIZE") > 0


def test_a_renewal_that_no_replica_confirms_lengthens_nothing(
    new_watched: NewWatched, new_client: MakeClient
) -> None:
    with new_watched(replicas=1, sentinels=0) as watched:
        client = new_client(url(watched.primary, "replicas=1"))
        hold = client.lock("x", ttl=3).acquire(timeout=5)
        assert hold
        time.sleep(3.5)
        hold.check()
        watched.cut_off()
        eventually(lambda: hold.remaining() == 0)
        assert hold.lost


def test_with_replicas_a_push_only_makes_the_waiter_ask_again(
    new_watched: NewWatched, new_client: MakeClient
) -> None:
    with new_watched(replicas=1, sentinels=0) as watched:
        address = url(watched.primary, "replicas=1")
        client, other = new_client(address), new_client(address)
        assert not client.supports("wakeup_grants")
        for _ in range(3):
            hold = client.lock("x").acquire()
            waiting = threading.Thread(target=lambda: other.lock("x").acquire(timeout=9).release())
            waiting.start()
            eventually(lambda: client.inspect("x", exact=True)[0].waiters)
            before = watched.primary.calls()["wait"]
            hold.release()
            waiting.join(10)
            assert watched.primary.calls()["wait"] > before
