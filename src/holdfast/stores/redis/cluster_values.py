"""Reads values in a cluster: one round trip per node, for the values that it has.

If a slot has moved to another node, its values are read there. If a slot is moving now, a node
that no longer has a value names the node that takes the slot over (ASK): the value is read there.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from .complaints import ServerSaid
from .slots import ASK, ELSEWHERE, sent_to
from .topology import Place
from .value_keys import Place as Keys

if TYPE_CHECKING:
    from .cluster import ClusterPort

Reply = Any


class Reading:
    """Reads some values, before ``until``; ``found`` has two replies for each value."""

    def __init__(self, cluster: ClusterPort, keys: Sequence[Keys], until: float) -> None:
        self._cluster = cluster
        self._face = cluster._face
        self._keys = keys
        self._until = until
        self.found: list[Reply] = [None] * (2 * len(keys))
        self._at_once = True

    async def round(self, left: Sequence[int]) -> tuple[list[int], bool]:
        """Read the values at these indexes; return those to read again, and True if no pause is
        needed."""
        self._at_once = True
        groups: dict[Place, list[int]] = {}
        for at in left:
            place = await self._cluster._place(self._keys[at].bucket, self._until)
            groups.setdefault(place, []).append(at)
        if len(groups) == 1:
            ((place, of),) = groups.items()
            return await self._part(place, of)(self._until - self._face.now()), self._at_once
        works = [self._part(place, of) for place, of in groups.items()]
        again: list[int] = []
        for said in await self._face.together(works, self._until):
            if isinstance(said, Exception):
                raise said
            again += said
        return again, self._at_once

    def _part(
        self, place: Place, of: list[int]
    ) -> Callable[[float], Coroutine[Any, Any, list[int]]]:
        """Return a function that reads the values ``of`` at one node."""

        async def ask(within: float) -> list[int]:
            try:
                said = await self._cluster._node(place).fetch([self._keys[at] for at in of], within)
            except Exception:
                self._cluster._unreachable(place)
                raise
            again = []
            for number, at in enumerate(of):
                pair = said[2 * number : 2 * number + 2]
                refusal = _refusal(pair)
                if refusal is not None and refusal.code == ASK:
                    pair = await self._followed(at, place, refusal, within)
                    refusal = _refusal(pair)
                self.found[2 * at : 2 * at + 2] = pair
                if refusal is not None:
                    again.append(at)
                    self._at_once &= self._cluster._told(self._keys[at].bucket, place, refusal)
            return again

        return ask

    async def _followed(
        self, at: int, place: Place, refusal: ServerSaid, within: float
    ) -> list[Reply]:
        to = sent_to(refusal, place)
        if to is None:
            return [refusal, refusal]
        return await self._cluster._node(to).fetch_asking(self._keys[at], within)


def _refusal(pair: Sequence[Reply]) -> ServerSaid | None:
    for one in pair:
        if one.__class__ is ServerSaid and one.code in ELSEWHERE:
            return one
    return None
