"""Whose turn it is, read off the names of the nodes: pure functions, no input or output.

A claim is held once it fits together with all that were created before it. Nothing is ever created
ahead of a claim that is there, so what has been seen ahead of it can only become less: a claim that
was once found to be held is held for as long as its node is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...core.model import Kind, Mismatch, Spec
from ...core.policy import fits
from .names import Entry, later

#: More nodes than this are not watched one by one, but through their folder.
WATCHED_MAX = 8


class Block(NamedTuple):
    """What stands in a claim's way: as long as all of ``nodes`` are there, it has to wait.

    ``alone``: nothing else is ahead, so that it is held once they are gone.
    """

    nodes: tuple[Entry, ...]
    alone: bool


class View(NamedTuple):
    """A line as one claim sees it: who is ahead, in order, and how much each of them takes."""

    ahead: tuple[Entry, ...]
    weights: tuple[int, ...]

    def held(self, capacity: int) -> int:
        """How many of those ahead hold."""
        used = count = 0
        for weight in self.weights:
            if not fits(capacity, used, weight):
                break
            used += weight
            count += 1
        return count


def ahead_of(own: Entry, line: list[Entry]) -> tuple[Entry, ...]:
    """Those that were created before, first come first."""
    found = [one for one in line if one is not own and later(own.number, one.number)]
    found.sort(key=lambda one: (one.number - own.number) % (1 << 32))
    return tuple(found)


def view(own: Entry, line: list[Entry], spec: Spec, shrunk: Mapping[str, int]) -> View:
    """The line as this claim sees it. ``shrunk``: nodes that weigh less than their names say."""
    ahead = ahead_of(own, line)
    return View(ahead, tuple(_weight(one, spec, shrunk) for one in ahead))


def _weight(one: Entry, spec: Spec, shrunk: Mapping[str, int]) -> int:
    if one.kind == spec.kind and one.capacity == spec.capacity:
        return shrunk.get(one.node, one.weight)
    if not one.kind and one.reads and spec.kind is Kind.RWLOCK:
        return 1
    # Somebody else's lock; or a claim that found another kind ahead of it and is about to go.
    return spec.capacity


def mismatch(first: Entry, spec: Spec) -> Mismatch | None:
    """The name is in use as something else, if so: whoever is first says as what."""
    if first.kind:
        if first.kind == spec.kind and first.capacity == spec.capacity:
            return None
        return Mismatch(first.kind, first.capacity)
    if first.reads:
        return None if spec.kind is Kind.RWLOCK else Mismatch(Kind.RWLOCK, 1 << 20)
    if spec.kind in (Kind.LOCK, Kind.RWLOCK):
        return None
    return Mismatch(Kind.LOCK, 1)


def block(seen: View, spec: Spec, weight: int) -> Block | None:
    """The fewest nodes that keep this claim waiting, the latest of them; None if it is held."""
    if fits(spec.capacity, sum(seen.weights), weight):
        return None
    places = sorted(range(len(seen.ahead)), key=lambda at: (seen.weights[at], at), reverse=True)
    chosen: list[int] = []
    used = 0
    for at in places:
        chosen.append(at)
        used += seen.weights[at]
        if not fits(spec.capacity, used, weight):
            break
    nodes = tuple(seen.ahead[at] for at in sorted(chosen))
    return Block(nodes, len(nodes) == len(seen.ahead) == 1)
