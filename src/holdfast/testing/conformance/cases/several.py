"""Several names as one: all names or none, acquired in one order, without dead-lock."""

from __future__ import annotations

from collections.abc import Callable

from ....core.model import Loss
from ....errors import ConfigError, LockLost, NotAcquired
from ...faces import now
from ..arena import KEPT_S, Arena, at_once, raises, unclear
from ..registry import case


@case("all", needs=["fences"])
async def each_of_several_has_its_fence(at: Arena) -> None:
    a, b = at.fresh("a"), at.fresh("b")
    async with at.locks.all(b, a) as hold:
        assert list(hold.fences) == [a, b]
        assert list(hold.fences.values()) == [one.fence for one in hold.holds]


@case("all", promise=True)
async def all_are_held_and_all_are_released(at: Arena) -> None:
    a, b, c = (at.fresh(end) for end in "abc")
    both = at.locks.all(c, a, b)
    assert both.names == (a, b, c)
    async with both as hold:
        assert hold
        assert hold.names == (a, b, c)
        assert 0 < hold.remaining() <= 30
        assert hold.lost is None
        hold.check()
        for one in hold.holds:
            (seen,) = await at.holders(one.name)
            assert seen.fence == at.number(one)
    for name in (a, b, c):
        assert not await at.holders(name)


@case("all")
async def none_is_kept_if_one_is_busy(at: Arena) -> None:
    a, b, c = (at.fresh(end) for end in "abc")
    async with at.others.lock(b):
        begun = now()
        assert await at.locks.all(a, b, c).acquire(blocking=False) is None
        assert now() - begun < at_once(begun)
        begun = now()
        assert await at.locks.all(a, b, c).acquire(timeout=0.1) is None
        assert 0.1 <= now() - begun < 0.1 + at_once(begun)
        for name in (a, c):
            assert not await at.holders(name)


@case("all")
async def one_time_covers_all_of_the_waiting(at: Arena) -> None:
    names = [at.fresh(str(number)) for number in range(4)]

    async def hold(name: str, seconds: float) -> None:
        async with at.others.lock(name):
            ready.append(name)
            await at.sleep(seconds)
            if name == names[-1]:
                await over.wait()

    ready: list[str] = []
    over = at.flag()
    actors = [at.start(hold, name, 0.2 * number) for number, name in enumerate(names, 1)]
    await at.until(lambda: len(ready) == 4)
    begun = now()
    assert await at.locks.all(*names).acquire(timeout=0.25) is None
    # With a time-out for each name, the acquire would take 0.85 s: 0.2 s for each of three names,
    # and the full 0.25 s for the last name
    assert now() - begun < 0.25 + at_once(begun)
    over.set()
    for actor in actors:
        await actor.result()


@case("all")
async def not_acquired_names_all_and_the_one_in_the_way(at: Arena) -> None:
    a, b = at.fresh("a"), at.fresh("b")
    async with at.others.lock(b):
        begun = now()
        with raises(NotAcquired, f"{a!r}, {b!r}", "0.5 s", "none is held") as caught:
            async with at.locks.all(b, a, timeout=0.5):
                raise AssertionError("the body ran unheld")
        error = caught.error
        assert isinstance(error, NotAcquired)
        assert (error.name, error.waited >= 0.5) == (b, True), vars(error)
        # On a slow machine the reply that names the holder can come too late
        if at.can.owners and (error.holder or not unclear(begun)):
            assert error.holder == at.others.owner
            assert f"{b!r} held by {at.others.owner}" in str(error)


@case("all")
async def opposite_orders_do_not_dead_lock(at: Arena) -> None:
    names = [at.fresh(end) for end in ("a", "b", "c")]
    inside: list[int] = []

    async def work(number: int, order: list[str]) -> None:
        client = at.others if number % 2 else at.locks
        for _ in range(5):
            async with client.all(*order):
                inside.append(number)
                await at.sleep(0.0005)
                assert inside == [number]
                inside.remove(number)

    orders = [names, names[::-1], names[1:] + names[:1], names[2:] + names[:2]]
    actors = [at.start(work, number, order) for number, order in enumerate(orders)]
    for actor in actors:
        await actor.result()


@case("all", needs=["fair"])
async def a_waiter_is_not_overtaken_by_a_claim_for_several_names(at: Arena) -> None:
    a, b = at.fresh("a"), at.fresh("b")
    order: list[str] = []

    async def wait(name: str) -> None:
        async with at.others.lock(name):
            order.append("one")
            await at.sleep(0.05)

    async def want() -> None:
        async with at.locks.all(a, b):
            order.append("several")

    for name in (a, b):
        holder = await at.locks.lock(name).acquire()
        assert holder is not None
        first = at.start(wait, name)
        await at.line(1, name)
        second = at.start(want)
        await at.line(2, name)
        await holder.release()
        await first.result()
        await second.result()
        assert order == ["one", "several"]
        order.clear()


@case("all")
async def a_release_of_all_serves_the_waiters(at: Arena) -> None:
    a, b, c = (at.fresh(end) for end in "abc")
    hold = await at.locks.all(a, b, c).acquire()
    assert hold is not None
    served: list[str] = []

    async def wait(name: str) -> None:
        async with at.others.lock(name, timeout=10):
            served.append(name)

    actors = [at.start(wait, name) for name in (a, c)]
    for name in (a, c):
        await at.line(1, name)
    begun = now()
    assert await hold.release()
    for actor in actors:
        await actor.result()
    assert sorted(served) == [a, c]
    assert now() - begun < at.served(begun)
    for name in (a, b, c):
        assert not await at.holders(name)


@case("all")
async def one_that_is_entered_already_is_left_as_often(at: Arena) -> None:
    a, b = at.fresh("a"), at.fresh("b")
    inner = at.locks.lock(a, reentrant=True)
    async with inner as outer:
        async with at.locks.all(inner, b) as hold:
            assert at.number(hold.holds[0]) == at.number(outer)
        assert await at.holders(a)
        assert not await at.holders(b)
        outer.check()
    assert not await at.holders(a)


@case("all", needs=["min_hold"])
async def min_hold_counts_for_each_of_several(at: Arena) -> None:
    a, b = at.fresh("a"), at.fresh("b")
    parts = [at.locks.lock(a, min_hold=KEPT_S), at.locks.lock(b)]
    async with at.locks.all(*parts):
        pass
    assert await at.others.lock(a).acquire(blocking=False) is None
    assert await at.holders(a)
    assert not await at.holders(b)
    await at.free(name=a)


@case("all", needs=["semaphore", "rwlock"])
async def locks_of_all_kinds_can_be_held_together(at: Arena) -> None:
    parts = [
        at.locks.semaphore(at.fresh("s"), 2),
        at.locks.rwlock(at.fresh("r")).read,
        at.locks.lock(at.fresh("l"), ttl=5),
    ]
    async with at.locks.all(*parts) as hold:
        hold.check()
        assert await at.others.lock(at.fresh("l")).acquire(blocking=False) is None
        async with at.others.rwlock(at.fresh("r")).read, at.others.semaphore(at.fresh("s"), 2):
            hold.check()


@case("all")
async def the_loss_of_one_is_the_loss_of_all(at: Arena) -> None:
    a, b = at.fresh("a"), at.fresh("b")
    both = at.locks.lock(a, ttl=2 * KEPT_S), at.locks.lock(b, ttl=2 * KEPT_S)
    hold = await at.locks.all(*both).acquire()
    assert hold is not None
    await at.others.break_(a, at.number(hold.holds[0]))
    assert await hold.holds[0].wait_lost(10) is Loss.BROKEN
    assert hold.lost is Loss.BROKEN
    with raises(LockLost, a):
        hold.check()
    assert await hold.release() is False
    assert not await at.holders(b)


@case("all")
async def leaving_the_body_reports_the_loss_of_one(at: Arena) -> None:
    a, b = at.fresh("a"), at.fresh("b")
    with raises(LockLost) as caught:
        async with at.locks.all(a, b) as hold:
            await at.others.break_(b, at.number(hold.holds[1]))
    assert caught.error.reason is Loss.BROKEN
    with raises(KeyError) as failed:
        taken = await at.locks.all(a, b).acquire()
        assert taken is not None
        async with taken as again:
            await at.others.break_(a, at.number(again.holds[0]))
            raise KeyError("the body's own")
    assert "lost" in failed.error.__notes__[0]
    assert not await at.holders(a)
    assert not await at.holders(b)


@case("all")
async def what_can_not_be_held_together_is_refused(at: Arena) -> None:
    a = at.fresh("a")
    wrong: dict[str, Callable[[], object]] = {
        "twice": lambda: at.locks.all(a, at.fresh("b"), a),
        "at least one": at.locks.all,
        "another client": lambda: at.locks.all(a, at.others.lock(at.fresh("b"))),
        "all(*names)": lambda: at.locks.all([a, at.fresh("b")]),  # type: ignore[arg-type]
        "names and locks": lambda: at.locks.all(a, 7),  # type: ignore[arg-type]
    }
    for words, make in wrong.items():
        with raises(ConfigError, words):
            make()
