"""FairLock: the queue that clients of holdfast and the peers share."""

from __future__ import annotations

import time

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag

from .conftest import BOTH, Play, Scene


def queue(at: Scene, name: str) -> list[str]:
    """The owners of the waiters, the next one first."""
    return [one.decode() for one in at.redis.lrange(f"redisson_lock_queue:{{{name}}}", 0, -1)]


def stand(at: Scene, name: str, owner: str, left_s: float) -> None:
    """Add a waiter of a peer, whose place is valid for this time."""
    until = round((time.time() + left_s) * 1000)
    at.redis.zadd(f"redisson_lock_timeout:{{{name}}}", {owner: until})
    at.redis.rpush(f"redisson_lock_queue:{{{name}}}", owner)


def test_waiters_are_served_in_order(play: Play) -> None:
    async def text(at: Scene) -> None:
        client, served = at.client("fair=true"), []
        assert client.supports("fair")

        async def wait(number: int) -> None:
            async with client.lock(at.name, timeout=20):
                served.append(number)
                await at.face.sleep(0.01)

        hold = await client.lock(at.name).acquire()
        actors = []
        for number in range(4):
            actors.append(at.face.start(lambda n=number: wait(n)))
            await at.until(lambda: len(queue(at, at.name)) == number + 1)  # noqa: B023
        (line,) = await client.inspect(at.name, exact=True)
        assert [one.position for one in line.waiters] == [1, 2, 3, 4]
        assert await hold.release()
        for actor in actors:
            await actor.result()
        assert served == [0, 1, 2, 3]
        assert not at.redis.exists(
            at.name,
            f"redisson_lock_queue:{{{at.name}}}",
            f"redisson_lock_timeout:{{{at.name}}}",
        )

    play(text, versions=BOTH)


def test_a_peer_that_waits_ahead_of_us_is_not_overtaken(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client("fair=true")
        hold = await client.lock(at.name).acquire()
        stand(at, at.name, at.peer.me, 300)
        at.peer.hear(f"redisson_lock__channel:{{{at.name}}}:{at.peer.me}")
        waiter = at.face.start(lambda: client.lock(at.name).acquire(timeout=20))
        await at.until(lambda: len(queue(at, at.name)) == 2)
        # When the holder releases: the message goes to the peer
        assert await hold.release()
        assert at.peer.heard() == b"0"
        assert await at.client("fair=true").lock(at.name).acquire(blocking=False) is None
        await at.face.sleep(0.1)
        assert not waiter.finished
        # When the peer has held and released
        at.redis.lpop(f"redisson_lock_queue:{{{at.name}}}")
        at.redis.zrem(f"redisson_lock_timeout:{{{at.name}}}", at.peer.me)
        (ours,) = queue(at, at.name)
        begun = boottime()
        at.redis.publish(f"redisson_lock__channel:{{{at.name}}}:{ours}", "0")
        hold = await waiter.result()
        assert boottime() - begun < 0.8 + lag.since(begun)
        assert await hold.release()

    play(text, versions=BOTH)


def test_a_try_that_may_not_wait_leaves_no_place_behind(play: Play) -> None:
    async def text(at: Scene) -> None:
        async with at.client("fair=true").lock(at.name):
            assert await at.client("fair=true").lock(at.name).acquire(blocking=False) is None
            assert queue(at, at.name) == []

    play(text)


def test_a_waiter_that_gives_up_leaves_and_later_waiters_move_up(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client("fair=true&fair_wait=7")
        times = f"redisson_lock_timeout:{{{at.name}}}"
        async with client.lock(at.name):
            waiter = at.face.start(lambda: at.in_vain(client.lock(at.name), 2.5))
            await at.until(lambda: len(queue(at, at.name)) == 1)
            stand(at, at.name, at.peer.me, 60)
            before = at.redis.zscore(times, at.peer.me)
            await waiter.result()
            assert queue(at, at.name) == [at.peer.me]
            assert before - at.redis.zscore(times, at.peer.me) == 7_000
            at.redis.delete(times, f"redisson_lock_queue:{{{at.name}}}")

    play(text)


def test_a_dead_peer_in_the_queue_is_skipped_when_its_time_has_expired(play: Play) -> None:
    async def text(at: Scene) -> None:
        begun = boottime()
        stand(at, at.name, at.peer.me, 0.4)
        hold = await at.client("fair=true").lock(at.name).acquire(timeout=10)
        assert 0.2 < boottime() - begun < 5.0 + lag.since(begun)
        assert await hold.release()

    play(text)


def test_a_waiter_that_waits_longer_than_fair_wait_is_not_dropped(play: Play) -> None:
    async def text(at: Scene) -> None:
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
        at.redis.delete(
            f"redisson_lock_timeout:{{{at.name}}}", f"redisson_lock_queue:{{{at.name}}}"
        )
        assert await hold.release()

    play(text)


def test_what_a_peer_takes_off_our_time_doesnt_cost_us_the_place(play: Play) -> None:
    async def text(at: Scene) -> None:
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

    play(text)


def test_a_place_is_worth_the_one_before_and_our_wait(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client("fair=true&fair_wait=9")
        times = f"redisson_lock_timeout:{{{at.name}}}"
        async with client.lock(at.name):
            stand(at, at.name, at.peer.me, 200)
            waiter = at.face.start(lambda: at.in_vain(client.lock(at.name), 2.5))
            await at.until(lambda: len(queue(at, at.name)) == 2)
            theirs, ours = (at.redis.zscore(times, one) for one in queue(at, at.name))
            assert abs(ours - theirs - 9_000) < 50
            await waiter.result()
            at.redis.delete(times, f"redisson_lock_queue:{{{at.name}}}")

    play(text)


def test_a_dead_waiter_of_holdfast_is_skipped_after_fair_wait(play: Play) -> None:
    async def text(at: Scene) -> None:
        holder, dead = at.client("fair=true"), at.client("fair=true&fair_wait=0.5")
        hold = await holder.lock(at.name).acquire()
        waiter = at.face.start(lambda: at.in_vain(dead.lock(at.name), 2.5))
        await at.until(lambda: len(queue(at, at.name)) == 1)
        places = queue(at, at.name)
        await waiter.result()
        # Given a place that its owner never renews
        for owner in places:
            stand(at, at.name, owner, 0.5)
        assert await hold.release()
        begun = boottime()
        hold = await holder.lock(at.name).acquire(timeout=20)
        assert boottime() - begun < 5.0 + lag.since(begun)
        assert await hold.release()

    play(text)
