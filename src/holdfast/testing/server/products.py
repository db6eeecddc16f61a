"""The main verbs of locks, queues and guards, each used once; and the requests of each."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ...aio import AsyncClient
from .bench import TTL_S, Floor

#: The names, jobs or keys of a verb for several.
SEVERAL = 20


class Tally:
    """Makes calls, and notes the requests of each. ``requests`` returns the number so far."""

    def __init__(self, requests: Callable[[], int] = int) -> None:
        self.requests = requests
        self.spent: dict[str, list[int]] = {}

    async def __call__(self, verb: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of the call of this verb."""
        before = self.requests()
        answer = await call()
        self.spent.setdefault(verb, []).append(self.requests() - before)
        return answer


async def use(
    at: Floor, ours: AsyncClient, other: AsyncClient, step: Tally, pause: float = 0.0
) -> None:
    """Use every verb once, and check its answer; leave nothing. ``ours`` makes the counted calls.

    With a pause, a hold, a delivery and a refresh lease are renewed during it.
    """
    can = ours.capabilities
    await _locks(at, ours, step, pause)
    await _handed_over(at, ours, other)
    if can.semaphore:
        permits = ours.semaphore(f"{at.name}:permits", 2)
        hold: Any = await permits.acquire(timeout=20)
        if can.resize:
            assert await step("resize", lambda: permits.resize(3)) == 2
        await hold.release()
    if can.rwlock:
        hold = await ours.rwlock(f"{at.name}:both").write.acquire(timeout=20)
        await step("downgrade", hold.downgrade)
        await hold.release()
    if can.queues:
        await _jobs(at, ours, step, pause)
        await _dead_letters(at, ours, step)
    if can.guards:
        await _values(at, ours, step, pause)


async def _locks(at: Floor, ours: AsyncClient, step: Tally, pause: float) -> None:
    name, can = at.name, ours.capabilities
    lock = ours.lock(name, ttl=TTL_S, reentrant=True)
    hold: Any = await step("acquire", lock.acquire)
    await step("enter again", lock.acquire)
    await at.face.sleep(pause)
    hold.check()
    await step("leave again", lock.release)
    assert await step("try", lambda: ours.lock(name).acquire(blocking=False)) is None
    assert await step("extend", hold.extend) > 0
    (line,) = await step("inspect", lambda: ours.inspect(name, exact=True))
    assert len(line.holders) == 1
    assert await step("release", hold.release)
    several = ours.all(*(f"{name}:{number}" for number in range(SEVERAL)))
    assert await (await step("acquire all", several.acquire)).release()
    hold = await several.acquire()
    assert await step("release all", hold.release)
    if can.detach:
        hold = await ours.lock(name, ttl=TTL_S).acquire(timeout=20)
        token = await step("detach", hold.detach)
        hold = await step("adopt", lambda: ours.adopt(token))
        assert await hold.release()
    hold = await ours.lock(name, ttl=TTL_S).acquire(timeout=20)
    (claim,) = await at.claims(ours, name)
    assert await step("break", lambda: ours.break_(name, claim.fence))
    assert not await hold.release()


async def _handed_over(at: Floor, ours: AsyncClient, other: AsyncClient) -> None:
    """Wait in line until the other client releases."""
    holder: Any = await other.lock(at.name, ttl=TTL_S).acquire(timeout=20)

    async def wait() -> Any:
        return await ours.lock(at.name, ttl=TTL_S).acquire(timeout=20)

    waiter = at.face.start(wait)
    await at.waits(other, at.name)
    assert await holder.release()
    assert await (await waiter.result(30)).release()


async def _jobs(at: Floor, ours: AsyncClient, step: Tally, pause: float) -> None:
    queue = ours.queue(f"{at.name}:jobs", ttl=TTL_S)
    await step("put", lambda: queue.put("one"))
    job = await step("take", lambda: queue.take(timeout=5))
    await at.face.sleep(pause)
    assert await step("ack", job.ack)
    await step("put many", lambda: queue.put_many(range(SEVERAL)))
    some = await step("take many", lambda: queue.take_many(SEVERAL, timeout=5))
    assert len(await step("list", queue.jobs)) == SEVERAL
    assert (await step("count", queue.stats)).taken == len(some)
    assert all(await step("ack many", lambda: queue.ack_many(some)))
    await queue.put_many(range(3))
    loop = aiter(queue.consume(timeout=0))
    done = [await anext(loop), await step("ack and take", lambda: anext(loop))]
    assert len(done + [job async for job in loop]) >= 3
    paced = ours.queue(f"{at.name}:paced", min_interval=0.05)
    waiter = at.face.start(lambda: paced.take(timeout=20))
    await at.face.sleep(0.1)
    await paced.put("woken", group="g")
    assert await (await waiter.result(30)).ack()


async def _dead_letters(at: Floor, ours: AsyncClient, step: Tally) -> None:
    queue = ours.queue(f"{at.name}:dead", retry_delay=0.0, retry_delay_max=0.0)
    await queue.put("one")
    for verb, end in (("return", "release"), ("retry", "retry"), ("dead letter", "dead_letter")):
        assert await step(verb, getattr(await queue.take(timeout=5), end))
    assert await step("retry dead", queue.retry_dead) == 1
    assert await step("purge", queue.purge) == 1
    assert await queue.jobs() == []


async def _values(at: Floor, ours: AsyncClient, step: Tally, pause: float) -> None:
    guard = ours.guard(f"{at.name}:values", ttl=60, lease=TTL_S)
    keys = [str(number) for number in range(SEVERAL)]

    async def compute(key: str = "") -> str:
        await at.face.sleep(0.0 if key else pause)
        return key

    async def fail() -> str:
        raise LookupError("no value")

    for key in ("", "again"):  # with the first one a store can remove old values
        assert await step("compute", partial(guard.get, compute, key=key)) == ""
    assert await step("get", lambda: guard.get(compute)) == ""
    await guard.get_many(keys, compute)
    assert await step("get many", lambda: guard.get_many(keys, compute)) == {k: k for k in keys}
    with contextlib.suppress(LookupError):
        await guard.get(fail, key="wrong")
    assert (await step("look", guard.inspect)).version > 0
    await guard.stats()
    assert await step("invalidate", lambda: guard.invalidate("", "again", *keys)) == SEVERAL + 2
