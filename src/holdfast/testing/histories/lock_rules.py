"""The rules of locks: which promises a history breaks, and by which claims.

Because every grant carries a fence, the order of the grants is known, and no search is needed:
claims are sorted, by fence or by time, and read once. A million events are judged in some seconds.

    exclusion            the weights of the claims that certainly hold are at most the capacity
    fence order          a claim that is asked for after another one is held has the greater fence
    duplicate fence      no two claims on a name ever got the same
    FIFO                 of two whose places in the line are known, the first was served first
    guarded writes       a thing accepts no fence smaller than one that it has accepted
    acquire answered     every acquire of a worker that lives is answered
    bounded waiting      acquire(timeout=T) is back within T and 0.25 s (all but one in a thousand)
    no resurrection      no look passes after the loss is known

Only certain facts count as a violation. A hold counts from the return of acquire until the first
of these: release is called, the loss is known, the worker is killed, or the deadline of its last
look has passed. What a killed worker did is unknown from its death on. A claim that was there when
the state of its name was damaged no longer counts: a store can't know what was taken from it; what
comes afterwards has to be right. Where the last fence may have been damaged too, the order of
fences is judged before and afterwards separately.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .locks import Claim, Write
from .terms import Terms, Violation

if TYPE_CHECKING:
    from .reader import Reader

#: An acquire that isn't answered this long after its time-out counts as never answered, seconds.
SILENCE_S = 5.0


def judge(reader: Reader, terms: Terms) -> Iterator[Violation]:
    """Sort the claims, by fence or by time, and read them once."""
    locks = reader.locks
    for name, claims in locks.names.items():
        held = [claim for claim in claims if claim.how == "held"]
        held.sort(key=lambda claim: claim.fence)
        yield from _exclusion(name, held)
        for some in _spans(held, locks.forgotten.get(name, [])):
            yield from _fences(name, some)
            yield from _fifo(reader, name, some)
        yield from _revived(name, held)
        yield from _unanswered(reader, name, claims)
    for thing, writes in locks.things.items():
        yield from _writes(thing, [write for write in writes if write.accepted])
    late, waits = _late(reader, terms.grace)
    if len(late) > terms.late_part * len(waits):
        yield from late


def _spans(held: list[Claim], forgotten: list[float]) -> Iterator[list[Claim]]:
    """Yield the claims that were asked for and granted between two losses of the last fence.

    With the last fence, the order may have been lost.
    """
    if not forgotten:
        yield held
        return
    times = sorted(forgotten)
    spans: dict[int, list[Claim]] = {}
    for claim in held:
        span = bisect_left(times, claim.asked)
        if span == bisect_left(times, claim.held):
            spans.setdefault(span, []).append(claim)
    yield from spans.values()


def _exclusion(name: str, held: list[Claim]) -> Iterator[Violation]:
    """Read the beginnings and ends of the certain holds in the order of time."""
    if not held:
        return
    capacity = max(claim.capacity for claim in held)
    steps: list[tuple[float, int]] = []
    for claim in held:
        start, end, weight = claim.held, claim.end, claim.weight
        if start >= end:
            continue
        steps.append((start, weight))
        if claim.shrunk is not None and start < claim.shrunk[0] < end:
            steps.append((claim.shrunk[0], claim.shrunk[1] - weight))
            weight = claim.shrunk[1]
        steps.append((end, -weight))
    steps.sort()  # at equal times, ends come first, because they are negative
    total, over = 0, False
    for when, change in steps:
        total += change
        if change > 0 and total > capacity and not over:
            inside = tuple(c for c in held if c.held <= when < c.end)
            text = f"{total} of {capacity} held by {', '.join(map(repr, inside[:4]))}"
            yield Violation("exclusion", name, when, text, inside[:4])
        over = total > capacity


def _fences(name: str, held: list[Claim]) -> Iterator[Violation]:
    """From the greatest fence down: none with a greater fence was held before this one asked."""
    earliest, who = math.inf, None
    former: Claim | None = None
    for claim in reversed(held):
        if former is not None and claim.fence == former.fence:
            text = f"fence {claim.fence} was given to {claim} and to {former}"
            when = max(claim.held, former.held)
            yield Violation("duplicate fence", name, when, text, (claim, former))
        elif who is not None and earliest < claim.asked:
            text = f"{claim} asked after {who} held, and has fence {claim.fence} < {who.fence}"
            yield Violation("fence order", name, claim.held, text, (who, claim))
        if claim.held < earliest:
            earliest, who = claim.held, claim
        former = claim


def _fifo(reader: Reader, name: str, held: list[Claim]) -> Iterator[Violation]:
    """A stopped worker may have lost its place; of the others the first in line is first."""
    placed = [
        claim
        for claim in held
        if claim.place is not None and not reader.stopped(claim.worker, claim.asked, claim.held)
    ]
    placed.sort(key=lambda claim: claim.place or 0)
    greatest: Claim | None = None
    for claim in placed:
        if greatest is not None and claim.fence < greatest.fence:
            text = f"{claim} stood in place {claim.place}, and {greatest} behind it came first"
            yield Violation("FIFO", name, claim.held, text, (greatest, claim))
        if greatest is None or claim.fence > greatest.fence:
            greatest = claim


def _revived(name: str, held: list[Claim]) -> Iterator[Violation]:
    for claim in held:
        if claim.revived > claim.lost:
            text = f"{claim} was lost ({claim.why}), and then a look passed"
            yield Violation("no resurrection", name, claim.revived, text, (claim,))


def _unanswered(reader: Reader, name: str, claims: list[Claim]) -> Iterator[Violation]:
    for claim in claims:
        if claim.how or claim.worker in reader.dead:
            continue
        over = claim.asked + (math.inf if claim.timeout is None else claim.timeout + SILENCE_S)
        over += reader.stopped(claim.worker, claim.asked, reader.last)
        if claim.worker in reader.ended or over < reader.last:
            text = f"{claim} was never answered"
            yield Violation("acquire answered", name, reader.last, text, (claim,))


def _writes(thing: str, accepted: list[Write]) -> Iterator[Violation]:
    """Check the two orders of writes that may be known: by their times, and by the thing."""
    greatest = 0
    done = sorted(accepted, key=lambda write: write.done)
    at = 0
    for write in sorted(accepted, key=lambda write: write.asked):
        while done[at].done < write.asked:
            greatest = max(greatest, done[at].fence)
            at += 1
        if write.fence < greatest:
            text = f"{thing} accepted fence {write.fence} of {write.worker} after {greatest}"
            yield Violation("guarded writes", thing, write.done, text)
    greatest = 0
    ordered = [write for write in accepted if write.order is not None]
    for write in sorted(ordered, key=lambda write: write.order or 0):
        if write.fence < greatest:
            text = f"{thing} shows fence {write.fence} of {write.worker} after {greatest}"
            yield Violation("guarded writes", thing, write.done, text)
        greatest = max(greatest, write.fence)


def _late(reader: Reader, grace: float) -> tuple[list[Violation], list[float]]:
    """Return the acquires that came back too late, and by how much each exceeded its time-out."""
    late, waits = [], []
    for name, claims in reader.locks.names.items():
        for claim in claims:
            if claim.timeout is None or not claim.how:
                continue
            took = claim.answered - claim.asked
            if reader.stops:
                took -= reader.stopped(claim.worker, claim.asked, claim.answered)
            beyond = took - claim.timeout
            waits.append(beyond)
            if beyond > grace:
                text = f"{claim} came back {beyond:.3f} s after its time-out of {claim.timeout:g} s"
                one = Violation("bounded waiting", name, claim.answered, text, (claim,))
                late.append(one)
    return late, waits


def figures(reader: Reader, terms: Terms) -> dict[str, float]:
    """Return the numbers for the report; none without locks."""
    claims = [claim for some in reader.locks.names.values() for claim in some]
    writes = [write for some in reader.locks.things.values() for write in some]
    if not (claims or writes):
        return {}
    late, waits = _late(reader, terms.grace)
    found: dict[str, float] = {"names": len(reader.locks.names), "acquires": len(claims)}
    for how in ("held", "busy", "failed"):
        found[how] = sum(claim.how == how for claim in claims)
    found["unknown"] = sum(not claim.how for claim in claims)
    found["lost"] = sum(claim.lost < math.inf for claim in claims)
    found["writes accepted"] = sum(write.accepted is True for write in writes)
    found["writes refused"] = sum(write.accepted is False for write in writes)
    found["late"] = len(late)
    found["worst lateness, s"] = max(waits, default=0.0)
    return found
