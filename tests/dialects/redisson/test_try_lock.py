"""``lock()`` and ``tryLock()`` of Java, expressed with holdfast's methods, on both faces."""

from __future__ import annotations

import time

from holdfast.core.model import Loss
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag

from .conftest import Play, Scene


def test_lock_waits_without_a_time_limit(play: Play) -> None:
    """``lock()`` corresponds to ``acquire()``."""

    async def text(at: Scene) -> None:
        client = at.client()
        at.peer.lock(at.name)
        waiter = at.face.start(client.lock(at.name).acquire)
        await at.listening(f"redisson_lock__channel:{{{at.name}}}")
        await at.face.sleep(1.2)
        assert not waiter.finished
        at.peer.unlock(at.name)
        hold = await waiter.result()
        assert await hold.release()

    play(text)


def test_lock_is_renewed_every_third_of_30_seconds(play: Play) -> None:
    """``lock()`` renews with a watchdog; here the lease is 3.6 s instead of 30 s."""

    async def text(at: Scene) -> None:
        assert at.client().lock(at.name).ttl == 30.0
        async with at.client().lock(at.name, ttl=3.6) as hold:
            least = 3_600
            end = time.monotonic() + 4.2
            while time.monotonic() < end:
                least = min(least, at.redis.pttl(at.name))
                await at.face.sleep(0.02)
            assert least > 0
            hold.check()

    play(text)


def test_try_lock_is_one_try(play: Play) -> None:
    """``tryLock()`` corresponds to ``acquire(blocking=False)``."""

    async def text(at: Scene) -> None:
        lock = at.client().lock(at.name)
        at.peer.lock(at.name)
        begun = boottime()
        assert await lock.acquire(blocking=False) is None
        assert boottime() - begun < 5.0 + lag.since(begun)
        at.peer.unlock(at.name)
        hold = await lock.acquire(blocking=False)
        assert await hold.release()

    play(text)


def test_try_lock_with_a_wait_gives_up_at_its_time_out(play: Play) -> None:
    """``tryLock(wait, unit)`` corresponds to ``acquire(timeout=wait)``."""

    async def text(at: Scene) -> None:
        lock = at.client().lock(at.name)
        at.peer.lock(at.name)
        begun = boottime()
        await at.in_vain(lock, 0.3)
        assert 0.3 <= boottime() - begun < 5.0 + lag.since(begun)
        assert at.redis.hkeys(at.name) == [at.peer.me.encode()]

    play(text)


def test_try_lock_with_a_wait_acquires_when_the_peer_releases_in_time(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client()
        at.peer.lock(at.name)
        waiter = at.face.start(lambda: client.lock(at.name).acquire(timeout=10))
        await at.listening(f"redisson_lock__channel:{{{at.name}}}")
        at.peer.unlock(at.name)
        hold = await waiter.result()
        assert await hold.release()

    play(text)


def test_try_lock_with_a_lease_is_never_renewed(play: Play) -> None:
    """``tryLock(wait, lease, unit)`` corresponds to ``acquire(timeout=wait)`` of a lock with
    ``ttl=lease`` and ``auto_renew=False``: the lease is a hard limit."""

    async def text(at: Scene) -> None:
        lock = at.client().lock(at.name, ttl=2.4, auto_renew=False)
        begun = boottime()
        hold = await lock.acquire(timeout=1.0)
        assert hold is not None
        assert 0 < at.redis.pttl(at.name) <= 2400
        await at.until(lambda: not at.redis.exists(at.name))
        assert boottime() - begun < 2.4 + 3.0 + lag.since(begun)
        assert hold.lost is Loss.EXPIRED
        assert at.peer.lock(at.name) is None
        assert await at.give_back(hold) is False

    play(text)


def test_a_hold_is_lost_at_the_client_before_it_expires_at_the_server(play: Play) -> None:
    async def text(at: Scene) -> None:
        hold = await at.client().lock(at.name, ttl=0.5, auto_renew=False).acquire()
        while hold.lost is None:
            await at.face.sleep(0.001)
        # By the server's clock a hundredth of the lease and 2 ms remain, unless the test is late
        assert hold.remaining() == 0.0
        assert await at.give_back(hold) is False

    play(text)
