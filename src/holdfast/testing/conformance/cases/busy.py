"""A try on a busy name, interrupted at any point: nothing changes for the holder."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

from ....core.model import ClaimRecord
from ....errors import StoreUnavailable
from ....runtime.blocking import run_sync
from ...faces import now
from ...faults.dice import dice
from ...faults.strike import Strike, points
from ...promise import promised
from ..arena import EXCLUSIVE, Arena, stolen
from ..registry import case

#: The lease of the holder, seconds. It isn't renewed, so its expiry shows any change.
TTL_S = 25.0
#: Maximum difference between two reads of one expiry, seconds.
READ_S = 0.5
#: The rounds of the event loop before a task is cancelled.
ROUNDS = (0, 1, 2, 3, 4, 6, 9, 14, 30)
#: Number of points of an acquire that one run interrupts.
POINTS = 16
#: Options with which an acquire of a held name ends by itself, without an interrupt.
TRIES: tuple[dict[str, Any], ...] = (
    {"blocking": False},
    {"timeout": 0},
    {"timeout": 0.001},
    {"timeout": 0.03},
)
BUSY = (*EXCLUSIVE, "read", "all")


class Held:
    """The store's record of a holder, and a check that it is unchanged."""

    def __init__(self, at: Arena, hold: Any, name: str) -> None:
        self._at = at
        self._hold = hold
        self._name = name
        self._begun = now()
        self._seen: ClaimRecord | None = None

    async def unchanged(self, what: object) -> None:
        """Check that fence, expiry and deadline are unchanged, and the name has no other holder."""
        (seen,) = await self._at.holders(self._name)
        first = self._seen = self._seen or seen
        with promised("a hold is its holder's"):
            assert (seen.fence, seen.owner) == (first.fence, first.owner), what
        passed = now() - self._begun
        late = READ_S + stolen(self._begun)
        told = f"{what}: {seen}, {passed:.3g} s on"
        assert seen.expires_in > TTL_S - passed - late, told
        if self._at.can.own_expiry:  # without it, requests of the client renew the claim, too
            assert seen.expires_in < TTL_S - passed + late, told
        self._hold.check()


@contextlib.asynccontextmanager
async def held(at: Arena) -> AsyncGenerator[Held]:
    """Let another client hold the name.

    If the case is about readers, the client is a writer. If the case is about several names, the
    client holds the last name.
    """
    name = at.name
    options: dict[str, Any] = {"ttl": TTL_S, "auto_renew": False}
    if at.primitive.name == "all":
        name += "/2"
        lock: Any = at.others.lock(name, **options)
    elif at.primitive.name == "read":
        lock = at.others.rwlock(name, **options).write
    elif at.primitive.name == "election":
        lock = at.rival(ttl=TTL_S)
    else:
        lock = at.rival(**options)
    hold = await lock.acquire()
    holder = Held(at, hold, name)
    await holder.unchanged("at first")
    yield holder
    await at.line(waiters=0, name=name)
    await holder.unchanged("at last")
    assert await hold.release() is True


@case(*BUSY)
async def a_try_on_a_busy_name_changes_nothing_for_the_holder(at: Arena) -> None:
    async with held(at) as holder:
        for options in TRIES:
            with contextlib.suppress(StoreUnavailable):  # a busy store exceeds these time-outs
                assert await at.lock().acquire(**options) is None
            await holder.unchanged(options)


@case(*BUSY, only="aio", because="a thread can't be cancelled")
async def a_cancelled_try_on_a_busy_name_changes_nothing_for_the_holder(at: Arena) -> None:
    async def tried(options: dict[str, Any]) -> None:
        with contextlib.suppress(StoreUnavailable):
            await at.lock().acquire(**options)

    async with held(at) as holder:
        for options in (*TRIES, {"timeout": 5}, {}):
            for rounds in ROUNDS:
                task = asyncio.create_task(tried(options))
                for _ in range(rounds):
                    await asyncio.sleep(0)
                task.cancel()
                if rounds % 2:  # once more, while the acquire is being undone
                    await asyncio.sleep(0)
                    task.cancel()
                await asyncio.wait([task])
            await holder.unchanged(options)


@case(
    *EXCLUSIVE, "read", only="sync", because="a loop turns Ctrl-C into a cancellation", alone=True
)
async def an_interrupted_try_on_a_busy_name_changes_nothing_for_the_holder(at: Arena) -> None:
    chance = dice("which points of an acquire are interrupted")
    async with held(at) as holder:
        for options in ({"blocking": False}, {"timeout": 0.02}):
            attempt = partial(_tried, at, options)
            many = points(attempt)
            for number in sorted(chance.sample(range(1, many + 1), min(POINTS, many))):
                strike = Strike(number)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # about coroutines that never began
                    with contextlib.suppress(KeyboardInterrupt, StoreUnavailable), strike:
                        attempt()
                await holder.unchanged(strike.where)


def _tried(at: Arena, options: dict[str, Any]) -> None:
    """Try to acquire once, in this thread."""
    assert run_sync(at.lock().acquire(**options)) is None
