"""The rules of locks: they find the promises that a history breaks, and the claims that broke them.

Every grant has a fence, so the order of the grants is known, and no search is needed: claims are
sorted by fence or by time, and read once. A million events are judged in some seconds.

    exclusion            the weights of the claims that certainly hold are at most the capacity
    fence order          an acquire that begins after another claim is held gets a greater fence
    duplicate fence      no two claims on a name have the same fence
    FIFO                 of two claims with known places in line, the front claim is granted first
    fenced writes        a thing accepts no fence smaller than a fence that it has accepted before
    acquire answered     every acquire of a living worker ends
    bounded waiting      acquire(timeout=T) ends within T and 0.25 s (all but one in a thousand)
    no resurrection      no check of a hold passes after its loss is known

Only what is certain counts as a violation. A hold counts from the return of acquire until the first
of these: release is called, the loss is known, the worker is killed, or the deadline of its last
check has passed. The actions of a killed worker after its death are unknown. A claim doesn't count
after the state of its name was damaged, because a store can't see which data it has lost; later
claims must be right. If the last fence can be damaged, too, the claims before and after the damage
are judged separately.
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

#: Seconds after its time-out after which an acquire without a result counts as never answered.
SILENCE_S = 5.0


def judge(reader: Reader, terms: Terms) -> Iterator[Violation]:
    """Yield the violations of the rules of locks."""
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
    """Split the claims at each damage of the last fence, because later fences may be lower.

    A claim that waited during a damage is in no part.
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
    """Add up the weights of the certain holds, in the order of time."""
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
    """Read the claims from the greatest fence down.

    No claim with a greater fence may be held before this claim was asked for.
    """
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
    """Check the order of the known places; a worker that was stopped can have lost its place."""
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
    """Check the fences of accepted writes by their times, and by the order that was recorded."""
    greatest = 0
    done = sorted(accepted, key=lambda write: write.done)
    at = 0
    for write in sorted(accepted, key=lambda write: write.asked):
        while done[at].done < write.asked:
            greatest = max(greatest, done[at].fence)
            at += 1
        if write.fence < greatest:
            text = f"{thing} accepted fence {write.fence} of {write.worker} after {greatest}"
            yield Violation("fenced writes", thing, write.done, text)
    greatest = 0
    ordered = [write for write in accepted if write.order is not None]
    for write in sorted(ordered, key=lambda write: write.order or 0):
        if write.fence < greatest:
            text = f"{thing} shows fence {write.fence} of {write.worker} after {greatest}"
            yield Violation("fenced writes", thing, write.done, text)
        greatest = max(greatest, write.fence)


def _late(reader: Reader, grace: float) -> tuple[list[Violation], list[float]]:
    """Return the acquires that ended too late, and the excess over the time-out of each acquire."""
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
    """Return the numbers for the report; empty if the history has no locks."""
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
