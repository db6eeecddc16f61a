"""Processes that lock one name again and again: the turns of each, their shares and overlaps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from holdfast.testing.faults import Subject

#: One hold of the name: its fence, its beginning and its end.
Turn = Sequence[float]


def turns_of(count: int, act: str, *args: object) -> list[list[Turn]]:
    """The turns of each of ``count`` processes that begin together."""
    crew = [Subject(act, *args) for _ in range(count)]
    try:
        for one in crew:
            assert one.hear(60) == "ready"
        for one in crew:
            one.say("go")
        found = [one.hear(90) for one in crew]
        for one in crew:
            one.end()
    finally:
        for one in crew:
            one.__exit__()
    return found


def shares(found: Sequence[Sequence[Turn]]) -> list[int]:
    """The number of turns that each process began while all processes were at work.

    A process that starts a moment later continues alone at the end, and much faster.
    """
    begins = [[turn[1] for turn in mine] for mine in found]
    first, last = max(map(min, begins)), min(map(max, begins))
    return [sum(first <= begun <= last for begun in mine) for mine in begins]


def overlaps(found: Sequence[Sequence[Turn]]) -> list[tuple[Turn, Turn]]:
    """Pairs of turns that overlap, or whose fences do not rise."""
    turns = sorted(turn for mine in found for turn in mine)
    return [
        (late, soon)
        for soon, late in itertools.pairwise(turns)
        if late[1] < soon[2] or late[0] <= soon[0]
    ]
