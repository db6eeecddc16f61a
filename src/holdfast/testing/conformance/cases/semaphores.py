"""The semaphore: permits, weights, one line for all claims, and a change of the capacity."""

from __future__ import annotations

from ....errors import ConfigError
from ...faces import now
from ..arena import Arena, raises
from ..registry import case


@case("semaphore", needs=["resize"])
async def a_semaphore_never_gets_fewer_permits_than_its_object_takes(at: Arena) -> None:
    three = at.locks.semaphore(at.name, 4, weight=3)
    with raises(ConfigError, at.name, "weight=3", "2 permits"):
        await three.resize(2)
    async with three:
        (line,) = await at.others.inspect(at.name, exact=True)
        assert sum(one.weight for one in line.holders) <= line.capacity == 4


@case("semaphore", promise=True)
async def as_many_hold_as_there_are_permits(at: Arena) -> None:
    semaphore = at.locks.semaphore(at.name, 3)
    assert await semaphore.available() == 3
    holds = [await semaphore.acquire() for _ in range(3)]
    assert await semaphore.available() == 0
    assert await semaphore.acquire(blocking=False) is None
    assert await at.others.semaphore(at.name, 3).acquire(blocking=False) is None
    await holds[1].release()
    assert await semaphore.available() == 1
    fourth = await at.others.semaphore(at.name, 3).acquire(blocking=False)
    assert fourth is not None
    for hold in (holds[0], holds[2], fourth):
        assert await hold.release() is True
    assert not await at.holders()


@case("semaphore", promise=True)
async def never_more_weight_is_inside_than_there_are_permits(at: Arena) -> None:
    inside: list[int] = []
    most = []

    async def work(weight: int) -> None:
        client = at.locks if weight % 2 else at.others
        semaphore = client.semaphore(at.name, 4, weight=weight)
        for _ in range(6):
            async with semaphore:
                inside.append(weight)
                most.append(sum(inside))
                await at.sleep(0.0005)
                inside.remove(weight)

    actors = [at.start(work, weight) for weight in (1, 1, 2, 3, 4)]
    for actor in actors:
        await actor.result()
    assert len(most) == 30
    assert max(most) == 4


@case("semaphore", needs=["fair"])
async def a_big_claim_holds_back_the_small_ones_behind_it(at: Arena) -> None:
    served: list[str] = []

    async def wait(name: str, weight: int) -> None:
        async with at.others.semaphore(at.name, 3, weight=weight):
            served.append(name)

    first = await at.locks.semaphore(at.name, 3, weight=2).acquire()
    second = await at.locks.semaphore(at.name, 3).acquire()
    big = at.start(wait, "big", 3)
    await at.line(waiters=1)
    small = at.start(wait, "small", 1)
    await at.line(waiters=2)
    await first.release()  # two permits are free: the small waiter fits, but arrived later
    assert await at.others.semaphore(at.name, 3).acquire(blocking=False) is None
    await at.sleep(0.05)
    assert served == []
    await second.release()
    for actor in (big, small):
        await actor.result()
    assert served == ["big", "small"]


@case("semaphore")
async def a_release_grants_all_waiters_that_fit_now(at: Arena) -> None:
    inside: list[int] = []

    async def wait(number: int) -> None:
        async with at.others.semaphore(at.name, 4):
            inside.append(number)
            await over.wait()

    over = at.flag()
    big = await at.locks.semaphore(at.name, 4, weight=4).acquire()
    actors = []
    for number in range(4):
        actors.append(at.start(wait, number))
        await at.line(waiters=number + 1)
    await big.release()
    await at.until(lambda: len(inside) == 4, within=0.75 + at.served(now()))
    over.set()
    for actor in actors:
        await actor.result()


@case("semaphore", "weighted")
async def another_number_of_permits_is_refused_and_both_are_named(at: Arena) -> None:
    async with at.locks.semaphore(at.name, 4):
        for other in (at.others.semaphore(at.name, 8), at.others.semaphore(at.name, 3)):
            with raises(ConfigError, at.name, "4 permits", f"{other.permits} permits", "resize"):
                await other.acquire()


@case("semaphore", needs=["permits_reset_when_idle"])
async def an_empty_line_gets_its_permits_from_the_next_claim(at: Arena) -> None:
    async with at.locks.semaphore(at.name, 4):
        pass
    async with at.others.semaphore(at.name, 8) as hold:
        hold.check()


@case("semaphore", needs=["resize"])
async def more_permits_grant_the_waiters(at: Arena) -> None:
    inside: list[int] = []

    async def wait(number: int) -> None:
        async with at.others.semaphore(at.name, 1):
            inside.append(number)
            await over.wait()

    over = at.flag()
    semaphore = at.locks.semaphore(at.name, 1)
    async with semaphore:
        actors = []
        for number in range(3):
            actors.append(at.start(wait, number))
            await at.line(waiters=number + 1)
        assert await semaphore.resize(3) == 1
        await at.until(lambda: len(inside) == 2, within=0.75 + at.served(now()))
        assert not at.can.fair or sorted(inside) == [0, 1]
        assert semaphore.permits == 3
        assert await semaphore.available() == 0
    await at.until(lambda: len(inside) == 3)
    over.set()
    for actor in actors:
        await actor.result()


@case("semaphore", needs=["resize"])
async def fewer_permits_take_nothing_away(at: Arena) -> None:
    semaphore = at.locks.semaphore(at.name, 3)
    holds = [await semaphore.acquire() for _ in range(3)]
    assert await at.others.semaphore(at.name, 2).resize(2) == 3
    for hold in holds:
        hold.check()
    assert await semaphore.available() == 0
    await holds[0].release()
    assert await semaphore.acquire(blocking=False) is None  # both permits are still held
    await holds[1].release()
    again = await semaphore.acquire(blocking=False)
    assert again is not None
    for hold in (holds[2], again):
        assert await hold.release() is True


@case("semaphore", needs=["resize"])
async def a_claim_that_no_longer_fits_at_all_gets_an_error(at: Arena) -> None:
    async def wait() -> None:
        await at.others.semaphore(at.name, 3, weight=3).acquire(timeout=10)

    async with at.locks.semaphore(at.name, 3):
        big = at.start(wait)
        await at.line(waiters=1)
        await at.locks.semaphore(at.name, 3).resize(2)
        with raises(ConfigError, "2 permits", "weight of 3"):
            await big.result()


@case("semaphore", needs=["resize"])
async def a_line_that_is_empty_has_no_size_to_change(at: Arena) -> None:
    assert await at.locks.semaphore(at.name, 3).resize(2) is None
    async with at.others.semaphore(at.name, 5):
        line = await at.look()
        assert line is not None
        assert line.capacity == 5


@case("semaphore", needs=["resize", "rwlock"])
async def only_a_semaphore_is_resized(at: Arena) -> None:
    async with at.locks.lock(at.name):
        with raises(ConfigError, "a lock"):
            await at.others.semaphore(at.name, 3).resize(2)


@case("semaphore", needs=["resize"])
async def a_roll_out_from_4_to_8_passes_through_while_both_run(at: Arena) -> None:
    inside: list[str] = []
    peak: list[int] = []
    grown = at.flag()

    async def work(kind: str, client: int) -> None:
        mine = at.others if client % 2 else at.locks
        semaphore = (
            mine.semaphore(at.name, 4)
            if kind == "old"
            else mine.semaphore(at.name, 8, on_conflict="resize")
        )
        if kind == "new":
            await grown.wait()
        for _ in range(4):
            async with semaphore:
                inside.append(kind)
                peak.append(len(inside))
                await at.sleep(0.002)
                inside.remove(kind)

    async with at.locks.semaphore(at.name, 4):  # keeps the line, and with it the capacity of 4
        old = [at.start(work, "old", number) for number in range(5)]
        await at.until(lambda: len(peak) > 4)
        assert max(peak) <= 3
        new = [at.start(work, "new", number) for number in range(5)]
        grown.set()
        for actor in (*old, *new):
            await actor.result()
        async with at.others.semaphore(at.name, 4):  # a client with the old number is accepted
            line = await at.look()
    assert line is not None
    assert line.capacity == 8
    assert len(peak) == 40
    assert max(peak) <= 7


@case("semaphore")
async def a_weight_beyond_the_permits_is_refused_at_once(at: Arena) -> None:
    with raises(ConfigError, "weight=4", "3 permits"):
        at.locks.semaphore(at.name, 3, weight=4)
