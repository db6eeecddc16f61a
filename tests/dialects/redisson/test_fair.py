"""FairLock: the queue that clients of holdfast and the peers share."""

from __future__ import annotations

import time

from .conftest import Scene, played


def queue(at: Scene, name: str) -> list[str]:
    """The owners of the waiters, the next one first."""
    return [one.decode() for one in at.redis.lrange(f"redisson_lock_queue:{{{name}}}", 0, -1)]


def stand(at: Scene, name: str, owner: str, left_s: float) -> None:
    """Add a waiter of a peer, whose place is valid for this time."""
    until = round((time.time() + left_s) * 1000)
    at.redis.zadd(f"redisson_lock_timeout:{{{name}}}", {owner: until})
    at.redis.rpush(f"redisson_lock_queue:{{{name}}}", owner)


@played()
async def test_a_waiter_that_gives_up_leaves_and_later_waiters_move_up(at: Scene) -> None:
    client = at.client("fair=true&fair_wait=7")
    times = f"redisson_lock_timeout:{{{at.name}}}"
    async with client.lock(at.name):
        waiter = at.face.start(lambda: at.in_vain(client.lock(at.name), 2.5))
        await at.until(lambda: len(queue(at, at.name)) == 1)
        stand(at, at.name, at.peer.me, 60)
        before = at.redis.zscore(times, at.peer.me)
        # Then a try that may not wait takes no place, and a place is worth the last one and
        # the wait
        assert await client.lock(at.name).acquire(blocking=False) is None
        last = at.face.start(lambda: at.in_vain(client.lock(at.name), 2.5))
        await at.until(lambda: len(queue(at, at.name)) == 3)
        worth = at.redis.zscore(times, queue(at, at.name)[2])
        assert abs(worth - before - 7_000) < 50
        await waiter.result()
        await last.result()
        assert queue(at, at.name) == [at.peer.me]
        assert before - at.redis.zscore(times, at.peer.me) == 7_000
        at.redis.delete(times, f"redisson_lock_queue:{{{at.name}}}")


@played()
async def test_a_waiter_that_waits_longer_than_fair_wait_is_not_dropped(at: Scene) -> None:
    # Given a place that stays valid for 3 s
    client = at.client("fair=true&fair_wait=3")
    hold = await client.lock(at.name).acquire()
    waiter = at.face.start(lambda: client.lock(at.name).acquire(timeout=20))
    await at.until(lambda: len(queue(at, at.name)) == 1)
    (ours,) = queue(at, at.name)
    stand(at, at.name, at.peer.me, 60)
    # When the lock is held for longer than that
    await at.face.sleep(4.5)
    # Then the waiter has kept its place
    assert queue(at, at.name)[0] == ours
    assert await hold.release()
    hold = await waiter.result()
    at.redis.delete(f"redisson_lock_timeout:{{{at.name}}}", f"redisson_lock_queue:{{{at.name}}}")
    assert await hold.release()


@played()
async def test_what_a_peer_takes_off_our_time_doesnt_cost_us_the_place(at: Scene) -> None:
    # Given a waiter of holdfast behind a peer, which deducts more time from it than is left
    client = at.client("fair=true")
    hold = await client.lock(at.name).acquire()
    stand(at, at.name, at.peer.me, 300)
    waiter = at.face.start(lambda: client.lock(at.name).acquire(timeout=20))
    await at.until(lambda: len(queue(at, at.name)) == 2)
    ours = queue(at, at.name)[1]
    stand(at, at.name, f"{at.peer.id}:behind", 600)
    times = f"redisson_lock_timeout:{{{at.name}}}"
    at.redis.lpop(f"redisson_lock_queue:{{{at.name}}}")
    at.redis.zrem(times, at.peer.me)
    at.redis.zincrby(times, -400_000, ours)
    # When the waiter renews its place
    await at.until(lambda: at.redis.zscore(times, ours) > time.time() * 1000)
    # Then the waiter is still in its place
    assert queue(at, at.name)[0] == ours
    assert await hold.release()
    hold = await waiter.result()
    at.redis.delete(times, f"redisson_lock_queue:{{{at.name}}}")
    assert await hold.release()
