"""Judges a history by the rules of each product, and lists the promises that it breaks.

Every grant has a fence, so the order of the grants is known, and no search is needed. A million
events are judged in some seconds. Only what is certain counts as a violation: the actions of a
killed worker after its death are unknown.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Collection, Generator, Iterable
from typing import NamedTuple

from ...runtime.blocking import boottime
from ..promise import demand
from . import lock_rules, queue_rules, refresh
from .reader import Reader
from .story import tell
from .terms import GRACE_S, LATE_PART, Terms, Violation

#: The rules of each product: ``judge`` finds the violations, ``figures`` are for the report.
RULES = (lock_rules, queue_rules, refresh)
#: Promises that a slow machine can break. (A stop before a record is written seems to shorten an
#: interval.)
BOUNDS = ("acquire answered", "bounded waiting", "interval")
#: Maximum number of listed violations of one kind and name; further violations are only counted.
TOLD = 5


class Verdict(NamedTuple):
    """The result of a judgement.

    ``first``: the time of the first event. ``counts``: the number of violations of each broken
    promise. ``violations``: the first violations, in the order of time. ``figures``: the numbers
    for the report. ``seconds``: the duration of the judgement.
    """

    events: int
    first: float
    violations: list[Violation]
    counts: dict[str, int]
    figures: dict[str, float]
    seconds: float

    @property
    def good(self) -> bool:
        """True if no promise is broken."""
        return not self.counts

    def demand(self, ignored: Collection[str] = ()) -> None:
        """Raise :class:`~holdfast.testing.promise.PromiseBroken` if a promise is broken.

        Raise a plain ``AssertionError`` if only bounds on time are broken. ``ignored``: promises
        that don't count here.
        """
        demand(self.counts.keys() - ignored, BOUNDS, tell(self))


def judge(
    *histories: Iterable[str | bytes],
    grace: float = GRACE_S,
    late_part: float = LATE_PART,
    interval: float = 0.0,
    interval_from: str = "ack",
) -> Verdict:
    """Judge the histories of these workers; each argument is the lines of one file.

    ``grace``: seconds by which an acquire may exceed its time-out; the share ``late_part`` of the
    acquires may exceed the time-out by more. ``interval``, ``interval_from``: a queue's
    ``min_interval``, and the event from which it counts. Raises ``BadHistory`` if a line isn't an
    event.
    """
    begun = boottime()
    reader, terms = Reader(), Terms(grace, late_part, interval, interval_from)
    with _no_collector():
        for number, lines in enumerate(histories, 1):
            reader.read(lines, f"history {number}")
        reader.finish()
        found = [one for rules in RULES for one in rules.judge(reader, terms)]
    counts: dict[str, int] = {}
    told: dict[tuple[str, str], list[Violation]] = {}
    for one in sorted(found, key=lambda one: one.when):
        counts[one.promise] = counts.get(one.promise, 0) + 1
        told.setdefault((one.promise, one.name), []).append(one)
    violations = sorted((v for some in told.values() for v in some[:TOLD]), key=lambda v: v.when)
    figures = {name: n for rules in RULES for name, n in rules.figures(reader, terms).items()}
    took = boottime() - begun
    return Verdict(reader.events, reader.first, violations, counts, figures, took)


def judge_files(
    *paths: str | os.PathLike[str],
    grace: float = GRACE_S,
    interval: float = 0.0,
    interval_from: str = "ack",
) -> Verdict:
    """Judge the histories in these files, one per worker; see :func:`judge`."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(path, "rb")) for path in paths]
        return judge(*files, grace=grace, interval=interval, interval_from=interval_from)


@contextlib.contextmanager
def _no_collector() -> Generator[None]:
    """Turn the garbage collector off: collections would double the time for a million claims."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
