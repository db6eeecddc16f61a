"""The read-write lock: readers share, a writer excludes, neither starves."""

from __future__ import annotations

from ....errors import NotSupported
from ...faces import now
from ..arena import KEPT_S, Arena, at_once, raises
from ..registry import case


@case("read", promise=True)
async def readers_share_and_keep_writers_out(at: Arena) -> None:
    async with at.lock() as one, at.rival() as other:
        at.in_order(at.number(one), at.number(other))
        assert one.weight == other.weight == 1
        assert await at.client().rwlock(at.name).write.acquire(blocking=False) is None
    async with at.locks.rwlock(at.name).write as hold:
        hold.check()


@case("write", promise=True)
async def a_writer_keeps_readers_and_writers_out(at: Arena) -> None:
    async with at.lock():
        assert await at.rival().acquire(blocking=False) is None
        assert await at.others.rwlock(at.name).read.acquire(blocking=False) is None


@case("write", needs=["fair"])
async def a_writer_is_served_before_readers_that_come_later(at: Arena) -> None:
    served: list[str] = []

    async def act(who: str) -> None:
        rw = at.client().rwlock(at.name)
        async with rw.write if who == "writer" else rw.read:
            served.append(who)

    async with at.locks.rwlock(at.name).read:
        writer = at.start(act, "writer")
        await at.line(waiters=1)
        late = at.start(act, "late reader")
        await at.line(waiters=2)
        assert await at.others.rwlock(at.name).read.acquire(blocking=False) is None
        assert served == []
    for actor in (writer, late):
        await actor.result()
    assert served == ["writer", "late reader"]


@case("write")
async def a_stream_of_readers_does_not_starve_a_writer(at: Arena) -> None:
    over: list[bool] = []

    async def read() -> None:
        rw = at.others.rwlock(at.name)
        while not over:
            async with rw.read:
                await at.sleep(0.001)

    async def write() -> None:
        begun = now()
        async with at.locks.rwlock(at.name).write:
            # On a store without a line of claims, the writer has to find a moment without a reader.
            assert now() - begun < (2 if at.can.fair else 8) + at_once(begun)

    readers = [at.start(read) for _ in range(3)]
    await at.sleep(0.02)
    try:
        await at.start(write).result()
    finally:
        over.append(True)
        for reader in readers:
            await reader.result()


@case("read", needs=["fair"])
async def a_nested_read_does_not_wait_for_the_writer_that_waits_for_it(at: Arena) -> None:
    async def write() -> None:
        async with at.others.rwlock(at.name).write:
            pass

    rw = at.locks.rwlock(at.name)
    async with rw.read as outer:
        writer = at.start(write)
        await at.line(waiters=1)
        begun = now()
        async with rw.read as inner, at.locks.rwlock(at.name).read as innermost:
            assert inner == innermost == outer
            assert now() - begun < at_once(begun)
        assert outer.lost is None
        assert not writer.finished
    await writer.result()


@case("read", needs=["fair"])
async def only_the_flow_that_reads_passes_the_waiting_writer(at: Arena) -> None:
    async def write() -> None:
        async with at.others.rwlock(at.name).write:
            pass

    async def attempt() -> bool:
        return await at.locks.rwlock(at.name).read.acquire(blocking=False) is None

    async with at.lock():
        writer = at.start(write)
        await at.line(waiters=1)
        assert await at.start(attempt).result() is True
    await writer.result()


@case("read", "write")
async def an_upgrade_is_refused_and_explained(at: Arena) -> None:
    rw = at.locks.rwlock(at.name)
    for side, word in ((rw.read, "reading"), (rw.write, "writing")):
        async with side:
            with raises(NotSupported, at.name, word, "forever", "downgrade"):
                await rw.write.acquire(timeout=1)
    assert not await at.holders()


@case("write")
async def a_read_inside_a_write_is_counted(at: Arena) -> None:
    rw = at.locks.rwlock(at.name)
    async with rw.write as outer:
        async with rw.read as inner:
            assert inner == outer
        assert await at.rival().acquire(blocking=False) is None
    assert not await at.holders()


@case("write")
async def a_downgrade_lets_readers_in_and_no_writer_between(at: Arena) -> None:
    seen: list[str] = []

    async def act(who: str) -> None:
        rw = at.client().rwlock(at.name)
        async with rw.write if who == "writer" else rw.read:
            seen.append(who)
            if who == "reader":
                await over.wait()

    over = at.flag()
    hold = await at.lock().acquire()
    reader = at.start(act, "reader")
    await at.line(waiters=1)
    writer = at.start(act, "writer")
    await at.line(waiters=2)
    fence = at.number(hold)
    await hold.downgrade()
    await at.until(lambda: seen == ["reader"], within=0.75 + at.served(now()))
    assert (at.number(hold), hold.weight, hold.lost) == (fence, 1, None)
    assert await at.others.rwlock(at.name).write.acquire(blocking=False) is None
    await hold.release()
    await at.sleep(0.02)
    assert seen == ["reader"]
    over.set()
    for actor in (reader, writer):
        await actor.result()
    assert seen == ["reader", "writer"]


@case("write")
async def a_downgraded_hold_continues_as_a_read_hold(at: Arena) -> None:
    async with at.lock(ttl=KEPT_S) as hold:
        await hold.downgrade()
        await hold.downgrade()  # the hold is a read hold already, so this does nothing
        async with at.others.rwlock(at.name).read as other:
            await at.renewed(hold)  # the renewer renews it as a reader
            hold.check()
            other.check()
    assert not await at.holders()


@case("read")
async def a_read_hold_has_nothing_to_downgrade(at: Arena) -> None:
    async with at.lock() as hold:
        await hold.downgrade()
        assert hold.weight == 1


@case("write")
async def a_write_hold_that_was_entered_again_is_not_downgraded(at: Arena) -> None:
    rw = at.locks.rwlock(at.name)
    async with rw.write as hold, rw.read:
        with raises(NotSupported, at.name):
            await hold.downgrade()
