"""RLock: the contents of its key, mutual exclusion with peers, and messages at a release."""

from __future__ import annotations

import re

import pytest

from holdfast import LockLost, NotHeld
from holdfast.core.model import Loss
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag

from .conftest import BOTH, Play, Scene

#: An owner: a UUID of version 4, and a number like the thread id in Java.
OWNER = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:\d{1,19}")


def test_a_hold_is_a_hash_with_one_owner_counted_once_and_a_lease(play: Play) -> None:
    async def text(at: Scene) -> None:
        async with at.client().lock(at.name):
            stands = at.redis.hgetall(at.name)
            assert list(stands.values()) == [b"1"]
            assert OWNER.fullmatch(next(iter(stands)))
            assert 20_000 < at.redis.pttl(at.name) <= 30_000
        assert not at.redis.exists(at.name)

    play(text)


def test_each_hold_is_a_separate_owner_with_the_uuid_of_its_client(play: Play) -> None:
    async def text(at: Scene) -> None:
        client, owners = at.client(), []
        for number in range(2):
            async with client.lock(f"{at.name}:{number}"):
                owners += at.redis.hkeys(f"{at.name}:{number}")
        (uuid, one), (same, other) = (owner.split(b":") for owner in owners)
        assert uuid == same
        assert one != other

    play(text)


def test_the_key_is_the_name_with_the_prefix_of_the_url(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client("prefix=shop:")
        async with client.lock(at.name):
            assert at.redis.hlen(f"shop:{at.name}") == 1
            (line,) = await client.inspect(at.name)
            assert line.name == at.name

    play(text)


def test_a_peer_is_refused_what_we_hold_and_we_what_it_holds(play: Play) -> None:
    async def text(at: Scene) -> None:
        lock = at.client().lock(at.name)
        async with lock:
            left = at.peer.lock(at.name)
            assert left is not None
            assert 20_000 < left <= 30_000
        assert at.peer.lock(at.name) is None
        assert await lock.acquire(blocking=False) is None
        assert at.peer.unlock(at.name) is True
        async with lock:
            assert at.peer.unlock(at.name) is None  # it can't give back what is ours

    play(text, versions=BOTH)


def test_a_re_entry_of_a_flow_is_counted_here_and_the_peers_see_one(play: Play) -> None:
    async def text(at: Scene) -> None:
        lock = at.client().lock(at.name, reentrant=True)
        async with lock:
            assert at.redis.pttl(at.name) > 20_000
            at.redis.pexpire(at.name, 15_000)
            async with lock:
                assert at.redis.hvals(at.name) == [b"1"]
                assert 0 < at.redis.pttl(at.name) <= 15_000  # a renewal comes without that
                assert at.peer.lock(at.name) is not None
        assert not at.redis.exists(at.name)

    play(text)


def test_a_re_entry_of_a_hold_that_is_not_renewed_restarts_its_lease_as_redissons_does(
    play: Play,
) -> None:
    async def text(at: Scene) -> None:
        client = at.client()
        outer = client.lock(at.name, reentrant=True, ttl=20, auto_renew=False)
        inner = client.lock(at.name, reentrant=True, ttl=60, auto_renew=False)
        async with outer as hold, inner:
            assert at.redis.hvals(at.name) == [b"1"]  # the count says nothing of it
            assert 50_000 < at.redis.pttl(at.name) <= 60_000
            assert 50.0 < hold.remaining() <= 60.0
        assert not at.redis.exists(at.name)

    play(text)


def test_a_re_entry_with_a_shorter_lease_takes_nothing_away(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client()
        inner = client.lock(at.name, reentrant=True, ttl=2, auto_renew=False)
        async with client.lock(at.name, reentrant=True, ttl=30, auto_renew=False) as hold, inner:
            assert 20_000 < at.redis.pttl(at.name) <= 30_000
            assert hold.ttl == 30
            assert hold.remaining() > 20

    play(text)


def test_a_re_entry_that_finds_the_hold_lost_is_refused(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client()
        lock = client.lock(at.name, reentrant=True, ttl=30, auto_renew=False)
        hold = await client.lock(at.name, reentrant=True, ttl=20, auto_renew=False).acquire()
        at.redis.delete(at.name)
        at.peer.lock(at.name)
        with pytest.raises(LockLost):
            await lock.acquire()
        assert hold.lost is Loss.BROKEN
        assert at.redis.hvals(at.name) == [b"1"]
        assert await at.give_back(hold) is False
        assert at.redis.hget(at.name, at.peer.me) == b"1"

    play(text)


def test_a_peer_that_has_entered_twice_is_waited_for_until_it_has_left_twice(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client()
        at.peer.lock(at.name)
        at.peer.lock(at.name)
        waiter = at.face.start(lambda: client.lock(at.name).acquire(timeout=10))
        await at.listening(f"redisson_lock__channel:{{{at.name}}}")
        assert at.peer.unlock(at.name) is False
        await at.face.sleep(0.1)
        assert not waiter.finished
        assert at.peer.unlock(at.name) is True
        hold = await waiter.result()
        assert await hold.release()

    play(text, versions=BOTH)


def test_a_count_that_is_more_than_one_is_taken_down_by_one(play: Play) -> None:
    async def text(at: Scene) -> None:
        hold = await at.client().lock(at.name).acquire()
        (owner,) = at.redis.hkeys(at.name)
        at.redis.hincrby(at.name, owner, 1)
        assert await hold.release()
        assert at.redis.hget(at.name, owner) == b"1"

    play(text)


def test_a_release_wakes_the_peers(play: Play) -> None:
    async def text(at: Scene) -> None:
        at.peer.hear(f"redisson_lock__channel:{{{at.name}}}")
        hold = await at.client().lock(at.name).acquire()
        assert await hold.release()
        assert at.peer.heard() == b"0"
        assert at.peer.heard(0.1) is None

    play(text, versions=BOTH)


def test_a_name_with_braces_is_left_unchanged(play: Play) -> None:
    async def text(at: Scene) -> None:
        name = f"{{user}}:{at.name}"
        at.peer.hear(f"redisson_lock__channel:{name}")
        hold = await at.client().lock(name).acquire()
        assert await hold.release()
        assert at.peer.heard() == b"0"

    play(text)


def test_a_peers_release_wakes_a_waiter_of_holdfast(play: Play) -> None:
    async def text(at: Scene) -> None:
        lock = at.client().lock(at.name)
        took = []
        for _ in range(5):
            at.peer.lock(at.name)
            waiter = at.face.start(lambda: lock.acquire(timeout=10))
            await at.listening(f"redisson_lock__channel:{{{at.name}}}")
            await at.face.sleep(0.05)
            begun = boottime()
            at.peer.unlock(at.name)
            hold = await waiter.result()
            took.append(boottime() - begun - lag.since(begun))
            assert await hold.release()
        assert sorted(took)[2] < 0.25  # unheard it would be half a second

    play(text)


def test_a_release_leaves_its_latch_to_current_peers_alone(play: Play) -> None:
    async def text(at: Scene) -> None:
        hold = await at.client().lock(at.name).acquire()
        assert await hold.release()
        latches = at.redis.keys(f"redisson_unlock_latch:{{{at.name}}}:*")
        if at.peer.version == "3.8.1":
            assert latches == []
        else:
            (latch,) = latches
            assert re.fullmatch(rb"[0-9a-f]{32}", latch.rpartition(b":")[2])
            assert at.redis.get(latch) == b"1"
            assert 0 < at.redis.pttl(latch) <= 10_000

    play(text, versions=BOTH)


def test_the_next_release_takes_the_latch_of_the_last_one_away(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client()
        for _ in range(3):
            async with client.lock(at.name):
                pass
        assert len(at.redis.keys(f"redisson_unlock_latch:{{{at.name}}}:*")) <= 1

    play(text)


def test_unlocking_what_is_not_held_is_not_held_as_an_illegal_monitor_state(play: Play) -> None:
    async def text(at: Scene) -> None:
        lock = at.client().lock(at.name)
        with pytest.raises(NotHeld, match=at.name):
            await lock.release()
        at.peer.lock(at.name)
        with pytest.raises(NotHeld, match=at.name):
            await lock.release()
        assert at.redis.hget(at.name, at.peer.me) == b"1"

    play(text, versions=BOTH)


def test_the_release_of_a_lost_hold_returns_false_with_every_version(play: Play) -> None:
    async def text(at: Scene) -> None:
        hold = await at.client().lock(at.name, ttl=0.5, auto_renew=False).acquire()
        await at.until(lambda: not at.redis.exists(at.name))
        at.peer.lock(at.name)
        assert await at.give_back(hold) is False
        assert hold.lost is Loss.EXPIRED
        assert at.redis.hget(at.name, at.peer.me) == b"1"

    play(text, versions=BOTH)


def test_breaking_a_peers_lock_frees_it_and_wakes_waiters(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client()
        at.peer.lock(at.name)
        at.peer.lock(at.name)
        at.peer.hear(f"redisson_lock__channel:{{{at.name}}}")
        (line,) = await client.inspect(at.name, exact=True)
        (holder,) = line.holders
        assert holder.owner == at.peer.me
        assert await client.break_(at.name, holder.fence + 1) is False
        assert await client.break_(at.name, holder.fence) is True
        assert at.peer.heard() == b"0"
        assert not at.redis.exists(at.name)
        assert await client.break_(at.name, holder.fence) is False

    play(text, versions=BOTH)


def test_inspect_lists_peers_and_own_holds(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client()
        at.peer.lock(f"{at.name}:theirs", 20_000)
        async with client.lock(f"{at.name}:ours"):
            at.redis.set(f"{at.name}:other", "no lock")
            ours, theirs = await client.inspect(at.name)
            assert (ours.name, theirs.name) == (f"{at.name}:ours", f"{at.name}:theirs")
            assert 10.0 < theirs.holders[0].expires_in <= 20.0
            assert theirs.holders[0].age < 0  # nobody knows
        assert await client.lock(f"{at.name}:theirs").locked()

    play(text)
