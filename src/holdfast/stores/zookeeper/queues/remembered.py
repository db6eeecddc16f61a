"""The record of earlier puts, and how it shrinks: each client that adds to it removes some of it.

A lane that put nothing for an hour is forgotten, and so is an id whose job and window have both
ended. So many are looked at for each that is added that they don't grow without limit; nobody waits
for that.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from typing import Any

from ..names import digest
from ..requests import Children, Delete, Found, Get
from .notes import stamp
from .space import Space
from .talk import Talk

#: Milliseconds without a put after which a lane is forgotten.
LANE_MS = 3_600_000
#: Number of those that are looked at each time, in the order of their names; and of the puts among
#: which one looks at ids.
_LOOKED_AT, _EACH = 16, 4


class Remembered:
    """Sweeps lanes and ids."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._puts = 0

    def faded(self, found: Found, now: int) -> bool:
        """Is the window of this id over, and its job as well?"""
        window = _window(found)
        return window is not None and stamp(found.stat.created) + window < now

    async def sweep_lanes(self, space: Space, lane: str, until: float) -> None:
        """A lane was added: look at those that come after it."""

        def old(found: Found, now: int) -> bool:
            return stamp(found.stat.changed) + LANE_MS < now

        await self._sweep(space.place.at("lanes"), digest(lane), old, until)

    async def sweep_ids(self, space: Space, ids: Sequence[str], until: float) -> None:
        """Ids were added: look at those that come after one of them."""
        self._puts += 1
        if len(ids) < _EACH and self._puts % _EACH:
            return
        for one in ids[: 1 + len(ids) // _LOOKED_AT]:
            path = space.place.known(one)
            folder, _, start = path.rpartition("/")
            await self._sweep(folder, start, self.faded, until)

    async def _sweep(
        self, folder: str, start: str, over: Callable[[Found, int], bool], until: float
    ) -> None:
        port, clock = self._talk.port, self._talk.clock
        (nodes,) = await self._talk.ask([Children(folder)], until)
        order = sorted(nodes if isinstance(nodes, list) else ())
        at = bisect(order, start)
        paths = [f"{folder}/{node}" for node in (order[at:] + order[:at])[:_LOOKED_AT]]
        answers = await self._talk.ask([Get(path) for path in paths], until)
        for path, found in zip(paths, answers, strict=True):
            if isinstance(found, Found) and over(found, clock.least(port.now())):
                port.post(Delete(path, found.stat.version), _unheeded)


def _window(found: Found) -> int | None:
    """How long an id is remembered, milliseconds; None while its job is there.

    The data are the window, and behind it a word once the job has ended. What was damaged from
    outside is remembered no longer.
    """
    window, _, over = found.data.partition(b" ")
    if not window.isdigit():
        return 0
    return int(window) if over else None


def _unheeded(answer: Any) -> None:
    """If it was written to meanwhile, it stays."""
