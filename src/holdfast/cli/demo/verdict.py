"""The verdict: what was promised, each promise checked against what was measured and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from . import ledger
from .history import Event, What, overlaps, scenes


class Finding(NamedTuple):
    """One promise: kept if nothing is wrong."""

    promise: str
    wrong: list[str]


def findings(
    events: Sequence[Event], data: bytes, pardoned: Sequence[int], wrong: Sequence[str]
) -> Iterator[Finding]:
    """Every promise, with what is wrong with it. ``wrong`` is what the story saw itself."""
    written = [e for e in events if e.what is What.WROTE]
    promised = [promise(event) for event in written]
    each = Counter(event.worker for event in written)
    amounts = " ".join(f"{name}:{each[name]}" for name in sorted(each))
    faults = ledger.audit(data, promised, pardoned)
    yield Finding(
        f"The ledger, line by line: {len(data.splitlines())} entries without a gap, each balance "
        f"made from the one before, fences rising, nothing torn, every worker's entries there, "
        f"once ({amounts})",
        faults,
    )
    holds = [e for e in events if e.what is What.HELD]
    yield Finding(
        f"{len(holds)} holds, and each had a greater fence than the one before", _falling(holds)
    )
    together = [text for scene in scenes(events) for text in overlaps(scene)]
    yield Finding("At no moment did two workers hold the lock", together)
    yield Finding("Everybody was served in turn, and a late write was refused", list(wrong))


def promise(event: Event) -> ledger.Entry:
    """The entry that a worker says that it wrote."""
    memo = "deposit" if event.amount > 0 else "withdrawal"
    return ledger.Entry(event.number, event.amount, event.balance, event.worker, event.fence, memo)


def _falling(holds: Sequence[Event]) -> list[str]:
    ordered = sorted(holds, key=lambda event: event.at)
    return [
        f"{after.worker} got fence {after.fence} after {before.worker} had got {before.fence}"
        for before, after in pairwise(ordered)
        if after.fence <= before.fence
    ]
