"""Order of the claims on one name, read from the names of their nodes: pure functions without I/O.

A claim is held once the capacity suffices for this claim and all claims that were created before
it. A new node is always the last, so the claims ahead of a claim only become fewer. A claim that
was held once therefore stays held while its node exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...core.model import Kind, Mismatch, Spec
from ...core.policy import fits
from .names import Entry, later

#: Maximum number of nodes that a claim watches one by one. If more block the claim, it watches the
#: folder.
WATCHED_MAX = 8


class Block(NamedTuple):
    """The nodes that block a claim: while all of ``nodes`` exist, the claim waits.

    ``alone``: there is only one node ahead, so the claim is held once that node is gone.
    """

    nodes: tuple[Entry, ...]
    alone: bool


class View(NamedTuple):
    """A line of claims as one claim sees it: the nodes ahead, in order, and the weight of each."""

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
    """Return the line as this claim sees it. ``shrunk``: reduced weights, by node name."""
    ahead = ahead_of(own, line)
    return View(ahead, tuple(_weight(one, spec, shrunk) for one in ahead))


def _weight(one: Entry, spec: Spec, shrunk: Mapping[str, int]) -> int:
    if one.kind == spec.kind and one.capacity == spec.capacity:
        return shrunk.get(one.node, one.weight)
    if not one.kind and one.reads and spec.kind is Kind.RWLOCK:
        return 1
    # A lock of another library; or a claim that differs from the first in line, and will withdraw.
    return spec.capacity


def mismatch(first: Entry, spec: Spec) -> Mismatch | None:
    """Return kind and capacity of the first in line if ``spec`` doesn't match them, else None."""
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
    """Return as few nodes as possible that block this claim; None if it is held.

    The nodes with the greatest weights are chosen, and among equal weights the latest nodes.
    """
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
