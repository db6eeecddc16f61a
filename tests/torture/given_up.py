"""Work that is given up while its request is on the way, and the next use of the same name.

Each case has three parts. ``prepare`` comes first, and nothing disturbs it. ``work`` is begun and
given up. The other client runs ``after``, which ends immediately if nothing is left of the work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from holdfast import AsyncClient, NotHeld
from holdfast.testing.faces import Actor, Face

#: Longer than any test waits, so that a test notices each claim that is left.
TTL = 20.0
WAIT = TTL / 2


class Given(NamedTuple):
    """Arguments of a case: the face, the client that gives up, the other client, the name, and the
    result of `prepare`."""

    face: Face
    ours: AsyncClient
    other: AsyncClient
    name: str
    made: Any = None
    #: True if the work was given up.
    cut: bool = True


Part = Callable[[Given], Awaitable[Any]]


class Case(NamedTuple):
    """One case, as described above. ``needs``: a capability that the store must have. ``endless``:
    the work waits until it is given up."""

    work: Part
    after: Part
    prepare: Part | None = None
    needs: str = ""
    endless: bool = False


async def _held(lock: Any) -> None:
    async with lock:
        pass


def _plain(make: Callable[[AsyncClient, str], Any]) -> Case:
    """Acquire and release; then the other client acquires."""
    return Case(
        lambda given: _held(make(given.ours, given.name)),
        lambda given: _held(make(given.other, given.name)),
    )


async def _waits(given: Given) -> None:
    await _held(given.ours.lock(given.name, ttl=TTL, timeout=WAIT))


async def _another_waits(given: Given) -> None:
    waiter = given.face.start(lambda: _held(given.other.lock(given.name, ttl=TTL, timeout=WAIT)))
    await given.made.release()
    await waiter.result(WAIT)


async def _compute(given: Given) -> Any:
    async def value() -> str:
        return given.name

    guard = given.ours.guard("given-up", ttl=0.02, timeout=WAIT)
    return await guard.get(value, key=given.name)


async def _put_one(given: Given) -> Any:
    return await _put(given._replace(ours=given.other))


async def _take(given: Given) -> None:
    async with given.ours.queue(given.name).taking(WAIT) as job:
        assert job is not None
        await job.release()


async def _take_next(given: Given) -> None:
    job = await given.other.queue(given.name).take(WAIT)
    assert job is not None
    assert job.id == "one"
    await job.ack()


async def _take_later(given: Given) -> None:
    """The other client waits for a job, and gets the job that comes."""
    waiter = given.face.start(lambda: _take_next(given))
    await given.face.sleep(0.01)
    await _put_one(given)
    await waiter.result(WAIT)


async def _woken(given: Given) -> list[Actor]:
    """Let the other client wait behind this one soon, and put a job after that."""

    async def later(seconds: float, act: Part) -> None:
        await given.face.sleep(seconds)
        await act(given)

    start = given.face.start
    return [start(lambda: later(0.005, _take_next)), start(lambda: later(0.01, _put_one))]


async def _woken_next(given: Given) -> None:
    for actor in given.made:
        await actor.result(WAIT)


async def _put(given: Given) -> Any:
    return await given.ours.queue(given.name).put(1, id="one")


async def _put_next(given: Given) -> None:
    """Put the same job again: it is in the queue once, however far the first put came."""
    await _put_one(given)
    await _take_next(given)
    assert await given.other.queue(given.name).take(0) is None


async def _taken(given: Given) -> Any:
    queue = given.other.queue(given.name)
    await queue.put(1, id="one", group="g")
    return await given.ours.queue(given.name).take(WAIT)


async def _settle(given: Given) -> None:
    await given.made.retry(0.0)


async def _settle_next(given: Given) -> None:
    if given.cut:
        await _settle(given)  # interrupted or not, it can be asked for again
    await _take_next(given)


async def _detached(given: Given) -> str:
    hold = await given.other.lock(given.name, ttl=TTL).acquire()
    return await hold.detach()


async def _adopt(given: Given) -> None:
    async with await given.ours.adopt(given.made):
        pass


async def _adopt_next(given: Given) -> None:
    """Adopt with the same token, which is still valid, unless its hold has ended."""
    with contextlib.suppress(NotHeld):
        await (await given.other.adopt(given.made)).release()
    await _held(given.other.lock(given.name, ttl=TTL, timeout=WAIT))


async def _ours(given: Given) -> Any:
    return [await given.ours.lock(given.name, ttl=TTL).acquire()]


async def _detach(given: Given) -> None:
    given.made.append(await given.made[0].detach())


async def _detach_next(given: Given) -> None:
    """Release the hold if its `detach` was given up; otherwise another client adopts it."""
    if given.cut:
        await given.made[0].release()
    else:
        await (await given.other.adopt(given.made[1])).release()
    await _held(given.other.lock(given.name, ttl=TTL, timeout=WAIT))


CASES: dict[str, Case] = {
    "lock": _plain(lambda one, name: one.lock(name, ttl=TTL, timeout=WAIT)),
    "semaphore": _plain(lambda one, name: one.semaphore(name, 1, ttl=TTL, timeout=WAIT)),
    "reader": Case(
        lambda given: _held(given.ours.rwlock(given.name, ttl=TTL, timeout=WAIT).read),
        lambda given: _held(given.other.rwlock(given.name, ttl=TTL, timeout=WAIT).write),
    ),
    "writer": _plain(lambda one, name: one.rwlock(name, ttl=TTL, timeout=WAIT).write),
    "leader": _plain(lambda one, name: one.election(name, ttl=TTL, timeout=WAIT)),
    "several": _plain(
        lambda one, name: one.all(
            one.lock(name, ttl=TTL), one.lock(name + "'", ttl=TTL), timeout=WAIT
        )
    ),
    "waiter": Case(
        _waits,
        _another_waits,
        lambda given: given.other.lock(given.name, ttl=TTL).acquire(),
        endless=True,
    ),
    "guard": Case(
        _compute, lambda given: _compute(given._replace(ours=given.other)), needs="guards"
    ),
    "take": Case(_take, _take_next, _put_one, needs="queues"),
    "idle take": Case(_take, _take_later, needs="queues", endless=True),
    "woken take": Case(_take, _woken_next, _woken, needs="queues", endless=True),
    "put": Case(_put, _put_next, needs="queues"),
    "settle": Case(_settle, _settle_next, _taken, needs="queues"),
    "adopt": Case(_adopt, _adopt_next, _detached, needs="detach"),
    "detach": Case(_detach, _detach_next, _ours, needs="detach"),
}
