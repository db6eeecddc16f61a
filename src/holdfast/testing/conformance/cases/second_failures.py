"""Each pair of failures in sequence, at the verbs of locks, queues and guards."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from ....core.guard.model import EntryState
from ...faces import now
from ..arena import Arena
from ..registry import case
from ..second import EXPECTED, Pair, Second, answered, each

#: The lease, seconds. It is longer than every wait here, so no name becomes free by expiry.
TTL_S = 60.0
#: A lease that is short enough to be renewed during a play, seconds.
SHORT_S = 0.9
#: Time-out for a value, seconds. A late copy of a request can take the refresh lease and keep it
#: until the lease expires.
WAIT_S = 10.0


async def _renewed(at: Arena, struck: Second, verb: str) -> None:
    """Wait until the renewer has sent this verb once more, for at most ``SHORT_S``."""
    before, end = struck.calls[verb], now() + SHORT_S
    while struck.calls[verb] == before and now() < end:
        await at.sleep(0.01)


# -- locks -----------------------------------------------------------------------------------


@case("lock", needs=["fences"])
async def two_failures_in_a_row_leave_one_holder_and_nothing_behind(at: Arena) -> None:
    async def play(at: Arena, client: Any, struck: Second, pair: Pair, name: str) -> None:
        async def acquire() -> Any:
            hold = await client.lock(name, ttl=TTL_S).acquire(timeout=3)
            for _ in range(2 if hold else 0):
                with contextlib.suppress(*EXPECTED):
                    await hold.extend()
            return hold

        await _held(at, struck, [name], acquire)

    async with at.lock() as first:  # a store without fences refuses here, before anything fails
        assert first.fence
    await each(at, "locks", play)


@case("all", needs=["fences"])
async def two_failures_in_a_row_leave_one_holder_of_several_names(at: Arena) -> None:
    async def play(at: Arena, client: Any, struck: Second, pair: Pair, name: str) -> None:
        names = [f"{name}{number}" for number in range(2)]
        several = client.all(*[client.lock(one, ttl=TTL_S) for one in names])

        async def acquire() -> Any:
            # First with the last name busy, so that the client joins the lines of claims one by one
            async with at.others.lock(names[-1], ttl=TTL_S, timeout=10):
                with contextlib.suppress(*EXPECTED):
                    assert await several.acquire(timeout=0.02) is None
            return await several.acquire(timeout=3)

        await _held(at, struck, names, acquire)

    several: Any = at.lock()
    async with several as first:  # a store without fences refuses here, too
        assert first.fences
    await each(at, "several", play)


async def _held(
    at: Arena, struck: Second, names: list[str], acquire: Callable[[], Awaitable[Any]]
) -> None:
    """Acquire and release these names twice with two failures; check each hold and its end."""
    fences = dict.fromkeys(names, 0)
    for _ in range(2):
        hold = None
        with contextlib.suppress(*EXPECTED):
            hold = await acquire()
        if hold is None:
            continue
        for name, fence in (getattr(hold, "fences", None) or {names[0]: hold.fence}).items():
            assert fence > fences[name], f"the fence {fence} after {fences[name]}"
            fences[name] = fence
        # Then no other client gets the names before the deadlines of the hold
        locks = [at.others.lock(name, ttl=TTL_S) for name in names]
        thieves = [one for lock in locks if (one := await lock.acquire(blocking=False))]
        assert not thieves or hold.remaining() == 0, f"two hold it: {hold} and {thieves}"
        kept = await answered(hold.release)
        assert not (thieves and kept), f"it was released in time, but others had it: {thieves}"
        assert thieves or kept is not False, f"it was not lost, and is not released: {hold}"
        for thief in thieves:
            await thief.release()
    # And the names are free soon, even if requests arrive late
    # (On a store whose claims belong to a session, requests arrive in order, or never.)
    await struck.settle_down(late=at.can.detach)
    for name in names:
        after = await at.others.lock(name, ttl=TTL_S).acquire(timeout=10)
        assert after is not None, f"it is still held: {name}"
        assert after.fence > fences[name]
        assert await after.release() is True
        await at.free(name=name)


# -- queues ----------------------------------------------------------------------------------


@case("queue", needs=["queues"])
async def two_failures_in_a_row_do_a_job_once_or_give_it_to_another(at: Arena) -> None:
    assert (await at.queue().stats()).accepted == 0
    await each(at, "queues", _jobs)


async def _jobs(at: Arena, client: Any, struck: Second, pair: Pair, name: str) -> None:
    renewed = "extend" in pair
    queue = client.queue(name, ttl=SHORT_S if renewed else TTL_S)
    rival = at.others.queue(name, ttl=TTL_S)
    # Given two failures, when jobs are put, taken, renewed and acked
    put, unknown, acked = set[str](), set[str](), list[str]()
    for one in ("one", "two"):
        with contextlib.suppress(*EXPECTED):
            await queue.put(one, group="g", id=one if one == "one" else None)
            put.add(one)
        job = None
        with contextlib.suppress(*EXPECTED):
            job = await queue.take(timeout=0.05)
        if job is None:
            continue
        if renewed:
            await _renewed(at, struck, "extend")
        # Then no other worker gets the job before the deadline of the delivery
        other = await rival.take(timeout=0)
        assert not other or job.remaining() == 0, f"two have it: {job} and {other}"
        if other and await other.ack():
            acked.append(other.payload)
        done = await answered(job.ack)
        assert done is not False or renewed, f"it was not lost, and is not acked: {job}"
        if done:
            acked.append(job.payload)
        else:  # its lease expired or no reply came, so it is unknown whether the job was acked
            unknown.add(job.payload)
    # And each accepted job is done once, and no late request takes the job
    await rival.put("three", group="g", id="three")
    put.add("three")
    await struck.settle_down()
    while other := await rival.take(timeout=10 if put - {*acked} - unknown else 0.05):
        assert await other.ack() is True
        acked.append(other.payload)
    assert len(acked) == len({*acked}), f"a job was done twice: {acked}"
    assert put <= {*acked} | unknown, f"not done: {put - {*acked} - unknown}"
    stats = await rival.stats()
    assert (stats.waiting, stats.taken, stats.dead) == (0, 0, 0), stats


# -- guards ----------------------------------------------------------------------------------


@case("guard", needs=["guards"])
async def two_failures_in_a_row_store_no_value_that_was_dropped(at: Arena) -> None:
    assert (await at.guard(ttl=60).inspect()).state is EntryState.MISSING
    await each(at, "guards", _values)


async def _values(at: Arena, client: Any, struck: Second, pair: Pair, name: str) -> None:
    clients = (client, at.others, at.locks)
    ours, theirs, others = (one.guard(name, ttl=TTL_S, lease=SHORT_S) for one in clients)

    def makes(value: str) -> Callable[[], Awaitable[str]]:
        async def compute() -> str:
            if "prolong" in pair and not struck.met:
                await _renewed(at, struck, "prolong")
            return value

        return compute

    async def fails() -> str:
        raise LookupError("it can't be computed")

    # Given two failures, when values are computed, some with errors, and invalidated
    dropped = set[str]()
    for value in ("first", "second"):
        with contextlib.suppress(LookupError, *EXPECTED):
            await ours.get(fails, timeout=WAIT_S)
        refused = ours._counts["refused"]
        with contextlib.suppress(*EXPECTED):
            told = await ours.get(makes(value), timeout=WAIT_S)
            if (told, refused) == (value, ours._counts["refused"]):
                assert await theirs.get(fails) == value, f"{value} was stored, and is gone"
        with contextlib.suppress(*EXPECTED):
            await ours.invalidate()
            dropped.add(value)
    # Then no caller gets an invalidated value, and the next caller gets a value in time
    found = await theirs.get(makes("third"), timeout=WAIT_S)
    assert found not in dropped, f"{found} was dropped"
    await theirs.invalidate()
    assert await theirs.get(makes("fourth"), timeout=WAIT_S) == "fourth"
    # And no late request stores an invalidated value again
    await struck.settle_down()
    last = await others.get(makes("fifth"), timeout=WAIT_S)
    assert last == "fourth" or (last == "fifth" and "invalidate" in pair), f"{last} came late"
