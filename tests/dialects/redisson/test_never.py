"""Bugs that Redisson had to fix, and that must not occur in holdfast."""

from __future__ import annotations

import secrets

from holdfast.core.model import Claim, Gone, Held, Kind, Leave, Renewal, Spec, Waiting
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import HOLD_REQUEST, delay_reply

from .conftest import Scene, played

CHANNEL = "redisson_lock__channel:{{{}}}"


@played()
async def test_a_dead_reader_is_not_kept_alive_by_a_living_one(at: Scene) -> None:
    # Given a reader that dies, and a reader of holdfast that is renewed
    assert at.peer.read(at.name, 600) is None
    lock = at.client().rwlock(at.name, ttl=4.0)
    hold = await lock.read.acquire()
    lease = f"{{{at.name}}}:{at.peer.me}:rwlock_timeout:1"
    # When the lease of the dead reader has expired
    await at.until(lambda: not at.redis.exists(lease), 5.0)
    await at.face.sleep(1.6)
    # Then that lease isn't renewed, and holdfast's release frees the lock
    assert not at.redis.exists(lease)
    hold.check()
    assert await hold.release()
    assert not at.redis.exists(at.name)


@played()
async def test_a_living_reader_of_the_peers_outlives_our_end(at: Scene) -> None:
    lock = at.client().rwlock(at.name, ttl=5.0)
    hold = await lock.read.acquire()
    assert at.peer.read(at.name, 20_000) is None
    # A renewal with a shorter lease and a release leave the peer's lease alone
    await at.face.sleep(1.8)
    assert 12_000 < at.redis.pttl(at.name) <= 20_000
    assert await hold.release()
    assert 12_000 < at.redis.pttl(at.name) <= 20_000
    assert await lock.write.acquire(blocking=False) is None
    at.peer.unread(at.name)
    async with lock.write:
        pass


@played()
async def test_nothing_is_renewed_after_its_unlock(at: Scene) -> None:
    client = at.client()
    store = client._ctx.store
    for wish in (
        client.lock(at.name),
        client.rwlock(at.name).read,
        client.rwlock(at.name).write,
    ):
        # Given a renewal that is under way while its hold is released
        hold = await wish.acquire()
        late = hold._lease.renewal(boottime())
        assert await hold.release()
        # When the renewal arrives, and finds no holder, or a peer
        (answer,) = await store.renew([late], 5.0)
        assert isinstance(answer, Gone)
        assert at.redis.keys(f"*{at.name}*:rwlock_timeout:*") == []
        assert not at.redis.exists(at.name)
        at.peer.lock(at.name, 20_000)
        (answer,) = await store.renew([late], 5.0)
        assert isinstance(answer, Gone)
        assert 0 < at.redis.pttl(at.name) <= 20_000
        at.peer.unlock(at.name)


@played(kinds=("", "fair=true"))
async def test_a_renewal_takes_nothing_for_a_waiter(at: Scene) -> None:
    # Given a waiter, with a place in the queue if the lock is fair
    store, queue = at.client(at.kind)._ctx.store, f"redisson_lock_timeout:{{{at.name}}}"
    claim = Claim(secrets.token_hex(16), Spec(at.name, Kind.LOCK, 1, 1, 20.0, "ours"))
    at.peer.lock(at.name, 20_000)
    waiting = await store.join(claim, True, 5.0)
    assert isinstance(waiting, Waiting)
    places = at.redis.zrange(queue, 0, -1, withscores=True)
    assert len(places) == bool(at.kind)
    for _ in range(2):
        # Then a renewal changes nothing, before and after the lock is free
        (answer,) = await store.renew([Renewal(claim, waiting.ticket, 20.0)], 5.0)
        assert isinstance(answer, Gone)
        assert at.redis.zrange(queue, 0, -1, withscores=True) == places
        at.redis.delete(at.name)
    assert not at.redis.exists(at.name)
    # And a turn takes the lock
    held = await store.turn(claim, waiting.ticket, 5.0)
    assert isinstance(held, Held)
    assert await store.leave(Leave(at.name, claim.id, held.fence), 5.0)
    assert not at.redis.exists(at.name, queue)


@played()
async def test_a_message_that_is_missed_costs_a_second_at_most(at: Scene) -> None:
    # Given a peer that holds for 30 s
    client = at.client()
    at.peer.lock(at.name)
    waiter = at.face.start(lambda: client.lock(at.name).acquire(timeout=20))
    await at.listening(CHANNEL.format(at.name))
    await at.face.sleep(0.1)
    # When the peer releases without a message, as a spin lock does
    begun = boottime()
    at.peer.spin_unlock(at.name)
    hold = await waiter.result(20)
    assert boottime() - begun < 4.0 + lag.since(begun)
    assert await hold.release()


@played()
async def test_the_end_of_a_lease_is_not_slept_through(at: Scene) -> None:
    client, took = at.client(), []
    for _ in range(3):
        # Given a peer that dies with 300 ms left
        at.peer.lock(at.name, 300)
        begun = boottime()
        hold = await client.lock(at.name).acquire(timeout=10)
        took.append(boottime() - begun - lag.since(begun))
        assert await hold.release()
    assert min(took) < 0.3 + 0.55  # else it would be a second, each time


@played()
async def test_an_end_between_the_refusal_and_the_subscription_is_seen(at: Scene) -> None:
    # Given a client that was refused, and whose subscription is delayed
    client = at.client("", at.proxy.port)
    await (await client.lock(f"{at.name}:warm").acquire()).release()
    at.peer.lock(at.name)
    held = at.proxy.arm(b"SUBSCRIBE", HOLD_REQUEST)
    waiter = at.face.start(lambda: client.lock(at.name).acquire(timeout=10))
    await at.until(lambda: held.hits)
    # When the peer releases, and no subscriber receives the message
    at.peer.unlock(at.name)
    begun = boottime()
    held.let_go()
    # Then the client's second attempt acquires the lock
    hold = await waiter.result()
    assert boottime() - begun < 0.8 + lag.since(begun)
    assert await hold.release()


@played()
async def test_a_waiter_asks_at_most_twice_a_second(at: Scene) -> None:
    client = at.client("", at.proxy.port)
    at.peer.lock(at.name)
    waiter = at.face.start(lambda: client.lock(at.name).acquire(timeout=20))
    await at.listening(CHANNEL.format(at.name))
    await at.face.sleep(0.1)
    begun = boottime()
    sent = at.proxy.arm(bool, delay_reply(0.0), 1000)
    await at.face.sleep(2.0)
    sent.disarm()
    took = boottime() - begun
    at.peer.unlock(at.name)
    hold = await waiter.result()
    assert 1 <= sent.hits <= 2 * took
    assert await hold.release()
