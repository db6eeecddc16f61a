"""RLock: the contents of its key, mutual exclusion with peers, and messages at a release."""

from __future__ import annotations

import re

import pytest

from holdfast import LockLost
from holdfast.core.model import Loss

from .conftest import BOTH, Scene, played

#: An owner: a UUID of version 4, and a number like the thread id in Java.
OWNER = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:\d{1,19}")


@played()
async def test_a_hold_is_a_hash_with_one_owner_counted_once_and_a_lease(at: Scene) -> None:
    client, owners = at.client("prefix=shop:"), []
    for number in range(2):
        name = f"{at.name}:{number}"
        async with client.lock(name):
            ((owner, count),) = at.redis.hgetall(f"shop:{name}").items()
            assert count == b"1"
            assert OWNER.fullmatch(owner)
            owners.append(owner.split(b":"))
            assert 20_000 < at.redis.pttl(f"shop:{name}") <= 30_000
            assert [line.name for line in await client.inspect(at.name)] == [name]
        assert not at.redis.exists(f"shop:{name}")
    # And the holds of a client are separate owners with its UUID
    assert owners[0][0] == owners[1][0]
    assert owners[0][1] != owners[1][1]


@played()
async def test_a_re_entry_of_a_hold_that_is_not_renewed_restarts_its_lease_as_redissons_does(
    at: Scene,
) -> None:
    client = at.client()
    outer = client.lock(at.name, reentrant=True, ttl=20, auto_renew=False)
    inner = client.lock(at.name, reentrant=True, ttl=60, auto_renew=False)
    async with outer as hold, inner:
        assert at.redis.hvals(at.name) == [b"1"]
        assert 50_000 < at.redis.pttl(at.name) <= 60_000
        assert 50.0 < hold.remaining() <= 60.0
    assert not at.redis.exists(at.name)


@played()
async def test_a_re_entry_with_a_shorter_lease_takes_nothing_away(at: Scene) -> None:
    client = at.client()
    inner = client.lock(at.name, reentrant=True, ttl=2, auto_renew=False)
    async with client.lock(at.name, reentrant=True, ttl=30, auto_renew=False) as hold, inner:
        assert 20_000 < at.redis.pttl(at.name) <= 30_000
        assert hold.ttl == 30
        assert hold.remaining() > 20


@played()
async def test_a_re_entry_that_finds_the_hold_lost_is_refused(at: Scene) -> None:
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


@played(versions=BOTH)
async def test_a_peer_that_has_entered_twice_is_waited_for_until_it_has_left_twice(
    at: Scene,
) -> None:
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


@played(versions=BOTH)
async def test_a_release_wakes_the_peers(at: Scene) -> None:
    # The braces of a name are the ones of its channel
    for name, channel in ((at.name, f"{{{at.name}}}"), (f"{{u}}:{at.name}",) * 2):
        at.peer.hear(f"redisson_lock__channel:{channel}")
        hold = await at.client().lock(name).acquire()
        assert await hold.release()
        assert at.peer.heard() == b"0"
        assert at.peer.heard(0.1) is None


@played(versions=BOTH)
async def test_a_release_leaves_its_latch_to_current_peers_alone(at: Scene) -> None:
    lock = at.client().lock(at.name)
    for _ in range(2):  # the second release removes the latch of the first
        hold = await lock.acquire()
        assert await hold.release()
    latches = at.redis.keys(f"redisson_unlock_latch:{{{at.name}}}:*")
    if at.peer.version == "3.8.1":
        assert latches == []
    else:
        (latch,) = latches
        assert re.fullmatch(rb"[0-9a-f]{32}", latch.rpartition(b":")[2])
        assert at.redis.get(latch) == b"1"
        assert 0 < at.redis.pttl(latch) <= 10_000


@played(versions=BOTH)
async def test_breaking_a_peers_lock_frees_it_and_wakes_waiters(at: Scene) -> None:
    client = at.client()
    at.peer.lock(at.name)
    at.peer.lock(at.name)
    at.peer.hear(f"redisson_lock__channel:{{{at.name}}}")
    (line,) = await client.inspect(at.name, exact=True)
    (holder,) = line.holders
    assert holder.owner == at.peer.me
    assert 10.0 < holder.expires_in <= 30.0
    assert holder.age < 0  # unknown
    assert await client.break_(at.name, holder.fence + 1) is False
    assert await client.break_(at.name, holder.fence) is True
    assert at.peer.heard() == b"0"
    assert not at.redis.exists(at.name)
    assert await client.break_(at.name, holder.fence) is False


@played()
async def test_each_grant_draws_a_token_that_the_peers_count_on_from(at: Scene) -> None:
    client = at.client("fenced=true")
    counter = f"redisson_lock_token:{{{at.name}}}"
    assert client.supports("fences")
    at.redis.set(counter, 40)
    for fence in (41, 42):
        async with client.lock(at.name) as hold:
            assert hold.fence == fence
            await at.in_vain(client.lock(at.name), 0.05)  # a refused try draws no token
            (line,) = await client.inspect(at.name, exact=True)
            assert line.holders[0].fence == fence
    assert at.redis.get(counter) == b"42"
    assert at.redis.ttl(counter) == -1


@played()
async def test_a_fenced_hold_is_broken_by_its_token_alone(at: Scene) -> None:
    client = at.client("fenced=true")
    hold = await client.lock(at.name).acquire()
    assert await client.break_(at.name, hold.fence + 1) is False
    assert await client.break_(at.name, hold.fence) is True
    assert await at.give_back(hold) is False
