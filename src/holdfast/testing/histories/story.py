"""A verdict as text: its figures, its violations, and the story of the first violation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .locks import Claim

if TYPE_CHECKING:
    from .judge import Verdict
    from .terms import Violation


def tell(verdict: Verdict) -> str:
    """Return the verdict as text; the story of the first violation is at the end, if any."""
    figures = ", ".join(f"{name} {value:,.4g}" for name, value in verdict.figures.items())
    lines = [f"{verdict.events:,} events judged in {verdict.seconds:.1f} s", figures]
    if verdict.good:
        return "\n".join([*lines, "no promise is broken"])
    lines += [f"BROKEN {name}: {count} times" for name, count in sorted(verdict.counts.items())]
    lines += [
        f"  {one.when - verdict.first:10.4f} s {one.promise}, {one.name!r}: {one.text}"
        for one in verdict.violations[:10]
    ]
    first = verdict.violations[0]
    if first.claims:
        lines += ["the first of them:", *story(first, verdict.first)]
    return "\n".join(lines)


def story(one: Violation, zero: float = 0.0) -> list[str]:
    """Return the events of the claims of a violation, in the order of time, as lines of text."""
    events = sorted(event for claim in one.claims for event in _events(claim))
    lines = [f"  {when - zero:10.4f} s {text}" for when, text in events]
    return [*lines, f"  {one.when - zero:10.4f} s {one.promise} is broken: {one.text}"]


def _events(claim: Claim) -> Iterator[tuple[float, str]]:
    """Yield the events of one claim, each with its time."""
    who, what = repr(claim), f"{claim.kind} {claim.name!r}"
    within = "without a time limit" if claim.timeout is None else f"for {claim.timeout:g} s"
    weight = f", weight {claim.weight}" if claim.weight > 1 else ""
    yield claim.asked, f"{who} asks for {what}{weight}, {within}"
    if claim.how == "held":
        yield claim.held, f"{who} holds, fence {claim.fence}"
        if claim.looked > claim.held:
            yield claim.looked, f"{who} checks for the last time: still held"
        yield claim.until, f"{who}: the last known deadline"
    elif claim.how:
        yield claim.answered, f"{who} gets: {claim.how} {claim.why}".rstrip()
    if claim.shrunk is not None:
        yield claim.shrunk[0], f"{who} shrinks to a weight of {claim.shrunk[1]}"
    if claim.died < math.inf:
        yield claim.died, f"{claim.worker} is killed"
    if claim.lost < math.inf:
        yield claim.lost, f"{who} knows that it is lost: {claim.why}"
    if claim.leaving < math.inf:
        yield claim.leaving, f"{who} calls release"
    if claim.left < math.inf:
        yield claim.left, f"{who} is released: {'held until then' if claim.kept else 'was lost'}"
