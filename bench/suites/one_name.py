"""A thousand tasks of one process take one name in loops: the rate, and the fairness."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from pathlib import Path

from .. import crew, regimes
from ..contenders import Arena, Contender
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale
from ..stats import jain

_AFTER_S = 60.0
#: Maximum seconds for cancelled tasks to release their locks at the end.
_LEAVE_S = 20.0

METRICS = (
    Metric(Column("acquired", "acquisitions/s"), "acquired"),
    Metric(Column("jain", "Jain's index"), "shares", jain),
    Metric(Column("starved", "starved"), "shares", lambda shares: shares.count(0), max),
    Metric(Column("wait", "longest wait ms"), "wait_ms", max, max),
)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return one panel."""
    of = [one for one in arena.contenders if one.shared is not None and one.face == "asyncio"]
    count, seconds = scale.of((1000, 2.0), (50, 0.5))
    return [
        Panel(
            key="one-name",
            title=f"{count:,} tasks of one process on one name for {seconds:g} s",
            regime=regimes.SPREAD,
            cases=[
                Case(one.label, functools.partial(read, one, count, seconds))
                for one in of
                if not one.missing
            ],
            metrics=METRICS,
            reference=arena.reference_of("one-name"),
            rounds=scale.rounds_of(3, 1),
            targets=arena.targets.get("one-name", ()),
            absent={one.label: one.missing for one in of if one.missing},
        )
    ]


def read(taker: Contender, count: int, seconds: float, place: Path) -> Reading:
    """Let ``count`` tasks contend for ``seconds`` seconds, in a new process."""
    work = functools.partial(_contend, taker, count, seconds, place)
    return crew.alone(lambda: asyncio.run(work()), seconds + _AFTER_S)


async def _contend(taker: Contender, count: int, seconds: float, place: Path) -> Reading:
    assert taker.shared is not None
    shared = taker.shared(place)
    await shared.use(f"{place.name}:first")()
    end = time.monotonic() + seconds
    shares, waits, asked = [0] * count, [0.0] * count, [0.0] * count

    async def again(number: int) -> None:
        def inside() -> None:
            now = time.monotonic()
            waits[number] = max(waits[number], min(now, end) - asked[number])
            shares[number] += now < end

        use = shared.use(place.name, inside)
        while (now := time.monotonic()) < end:
            asked[number] = now
            await use()

    tasks = [asyncio.ensure_future(again(number)) for number in range(count)]
    await asyncio.sleep(seconds)
    still = [max(wait, end - since) for wait, since in zip(waits, asked, strict=True)]
    found: Reading = {
        "acquired": [sum(shares) / seconds],
        "shares": list(shares),
        "wait_ms": [1e3 * wait for wait in still],
    }
    done, late = await asyncio.wait(tasks, timeout=0)
    for task in late:
        task.cancel()
    await asyncio.wait(tasks, timeout=_LEAVE_S)
    for task in done:
        task.result()
    with contextlib.suppress(Exception):
        await shared.close()
    return found
