"""Order of a line, read from the names of its nodes: pure functions without input or output.

A claim is held once it fits together with all claims that were created before it. No node is ever
created ahead of an existing claim, so the claims ahead of it only become fewer: a claim that was
once found to be held is held for as long as its node is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...core.model import Kind, Mismatch, Spec
from ...core.policy import fits
from .names import Entry, later

#: Maximum nodes to watch one by one; for more, the claim watches their folder.
WATCHED_MAX = 8


class Block(NamedTuple):
    """The nodes that block a claim: while all of ``nodes`` are there, it has to wait.

    ``alone``: nothing else is ahead, so the claim is held once they are gone.
    """

    nodes: tuple[Entry, ...]
    alone: bool


class View(NamedTuple):
    """A line as one claim sees it: the nodes ahead, in order, and the weight of each."""

    ahead: tuple[Entry, ...]
    weights: tuple[int, ...]

    def held(self, capacity: int) -> int:
        """Return how many of the claims ahead are held."""
        used = count = 0
        for weight in self.weights:
            if not fits(capacity, used, weight):
                break
            used += weight
            count += 1
        return count


def ahead_of(own: Entry, line: list[Entry]) -> tuple[Entry, ...]:
    """Return the entries that were created before this one, the oldest first."""
    found = [one for one in line if one is not own and later(own.number, one.number)]
    found.sort(key=lambda one: (one.number - own.number) % (1 << 32))
    return tuple(found)


def view(own: Entry, line: list[Entry], spec: Spec, shrunk: Mapping[str, int]) -> View:
    """Return the line as this claim sees it. ``shrunk``: lower weights than in the node names."""
    ahead = ahead_of(own, line)
    return View(ahead, tuple(_weight(one, spec, shrunk) for one in ahead))


def _weight(one: Entry, spec: Spec, shrunk: Mapping[str, int]) -> int:
    if one.kind == spec.kind and one.capacity == spec.capacity:
        return shrunk.get(one.node, one.weight)
    if not one.kind and one.reads and spec.kind is Kind.RWLOCK:
        return 1
    # A lock of another library; or a claim that found another kind ahead and will withdraw.
    return spec.capacity


def mismatch(first: Entry, spec: Spec) -> Mismatch | None:
    """Return as what else the name is in use, going by the first in line; None if it isn't."""
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
    """Return the fewest and latest nodes that keep this claim waiting; None if it is held."""
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
