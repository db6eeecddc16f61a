"""The read-write lock: the contents of its key, and mutual exclusion with peers."""

from __future__ import annotations

from holdfast.core.model import Loss
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag

from .conftest import BOTH, Scene, played


@played(versions=BOTH)
async def test_the_end_of_a_writer_wakes_all_readers(at: Scene) -> None:
    client = at.client()
    channel = f"redisson_rwlock:{{{at.name}}}"
    at.peer.hear(channel)
    # Given a peer that holds the write lock, and three waiting readers
    assert at.peer.write(at.name) is None
    readers = [
        at.face.start(lambda: client.rwlock(at.name).read.acquire(timeout=10)) for _ in range(3)
    ]
    await at.listening(channel, 4 if at.face.name == "sync" else 2)
    await at.face.sleep(0.1)
    # When the peer releases
    begun = boottime()
    at.peer.unwrite(at.name)
    holds = [await reader.result() for reader in readers]
    # Then all readers hold the lock
    assert boottime() - begun < 0.8 + lag.since(begun)
    said = b"0" if at.peer.version == "3.8.1" else b"1"
    assert at.peer.heard() == said
    for hold in holds:
        assert await hold.release()
    # And a release of holdfast's writer publishes the same message
    assert at.peer.heard() == b"0"
    async with client.rwlock(at.name).write:
        pass
    assert at.peer.heard() == said


@played()
async def test_a_writer_waits_for_the_last_reader_and_is_woken_by_it(at: Scene) -> None:
    client = at.client()
    first = await client.rwlock(at.name).read.acquire()
    assert at.peer.read(at.name) is None
    writer = at.face.start(lambda: at.client().rwlock(at.name).write.acquire(timeout=10))
    await at.listening(f"redisson_rwlock:{{{at.name}}}")
    assert await first.release()
    await at.face.sleep(0.1)
    assert not writer.finished
    begun = boottime()
    at.peer.unread(at.name)
    hold = await writer.result()
    assert boottime() - begun < 0.8 + lag.since(begun)
    assert await hold.release()


@played()
async def test_a_writer_that_becomes_a_reader_lets_the_waiting_readers_in(at: Scene) -> None:
    hold = await at.client().rwlock(at.name, ttl=4.0).write.acquire()
    at.peer.hear(f"redisson_rwlock:{{{at.name}}}")
    await hold.downgrade()
    assert at.peer.heard() is not None
    await at.face.sleep(1.6)
    assert at.peer.heard(0.1) is None  # its renewals say nothing
    hold.check()
    assert at.redis.hget(at.name, "mode") == b"read"
    assert at.peer.read(at.name) is None
    assert await hold.release()
    assert at.redis.hkeys(at.name) == [b"mode", at.peer.me.encode()]


@played()
async def test_an_expired_reader_is_lost_although_other_readers_hold(at: Scene) -> None:
    hold = await at.client().rwlock(at.name, ttl=4.5).read.acquire()
    assert at.peer.read(at.name) is None
    leases = at.redis.keys(f"{{{at.name}}}:*:rwlock_timeout:1")
    at.redis.delete(*[one for one in leases if at.peer.me.encode() not in one])
    assert await hold.wait_lost(20) is Loss.BROKEN
    assert await at.give_back(hold) is False
    await at.until(lambda: at.redis.hlen(at.name) == 2)
    assert at.redis.hget(at.name, at.peer.me) == b"1"


@played()
async def test_breaking_one_reader_leaves_the_others(at: Scene) -> None:
    client = at.client()
    async with client.rwlock(at.name).read as hold:
        assert at.peer.read(at.name) is None
        (line,) = await client.inspect(at.name, exact=True)
        (theirs,) = [one for one in line.holders if one.owner == at.peer.me]
        assert await client.break_(at.name, theirs.fence) is True
        assert len(at.redis.hkeys(at.name)) == 2
        hold.check()
