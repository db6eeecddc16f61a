"""Removes old records of earlier puts: each client that adds a record also removes some.

A producer without a put for an hour is forgotten. An id is forgotten when its job and its window
have both ended. Each added record causes a check of several others, so that the number of records
stays limited. The deletes are sent without waiting for their answers.
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

#: Milliseconds without a put after which a producer is forgotten.
LANE_MS = 3_600_000
#: ``_LOOKED_AT``: number of records that one sweep checks, in the order of their names. ``_EACH``:
#: of this number of small puts, one sweeps ids.
_LOOKED_AT, _EACH = 16, 4


class Remembered:
    """Sweeps the records of producers and ids."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._puts = 0

    def faded(self, found: Found, now: int) -> bool:
        """True if the job of this id has ended, and the window of the id as well."""
        window = _window(found)
        return window is not None and stamp(found.stat.created) + window < now

    async def sweep_lanes(self, space: Space, lane: str, until: float) -> None:
        """Check the records of producers that follow a new one in the order of names."""

        def old(found: Found, now: int) -> bool:
            return stamp(found.stat.changed) + LANE_MS < now

        await self._sweep(space.place.at("lanes"), digest(lane), old, until)

    async def sweep_ids(self, space: Space, ids: Sequence[str], until: float) -> None:
        """Check the ids that follow some of the new ones in the order of names."""
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
    """Return the window of an id in milliseconds; None while its job exists.

    The data of the node are the window, followed by a word once the job has ended. An id whose node
    was damaged by another program has a window of 0.
    """
    window, _, over = found.data.partition(b" ")
    if not window.isdigit():
        return 0
    return int(window) if over else None


def _unheeded(answer: Any) -> None:
    """Ignore the answer: if the node was written to in between, it stays."""
