"""The measured events, and the waits and holds that are computed from them.

Each process reads the time of an event from the monotonic clock, which is the same for all
processes of the machine. All results and drawings are computed from these events.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from .ledger import Entry


class What(enum.StrEnum):
    """The kinds of events. The story records ``KILLED`` to ``SCENE``; workers send the others."""

    READY = "ready"
    ASKED = "asked"
    HELD = "held"
    WRITING = "writing"
    WROTE = "wrote"
    LEAVING = "leaving"
    REJECTED = "rejected"
    DONE = "done"
    FAILED = "failed"
    KILLED = "killed"
    STOPPED = "stopped"
    EXPIRED = "expired"
    CONTINUED = "continued"
    SCENE = "scene"


class Event(NamedTuple):
    """One event. ``at``: its time in seconds. ``took``: for ``HELD``, the seconds of the wait."""

    at: float
    worker: str
    what: What
    fence: int = 0
    text: str = ""
    took: float = 0.0
    entry: Entry | None = None


#: An event that begins a span of time -> the worker's state in that span. The worker's next event
#: in this table or in `_ENDS` ends the span.
STATES = {
    What.HELD: "holds",
    What.ASKED: "waits",
    What.STOPPED: "frozen, its lease runs",
    What.EXPIRED: "frozen, its lease has expired",
}
_ENDS = (What.LEAVING, What.KILLED, What.CONTINUED)
#: The events that get a sign in the timeline -> the meaning of the sign.
MARKS = {What.KILLED: "killed", What.REJECTED: "write refused"}


class Span(NamedTuple):
    """A worker in one of ``STATES``, from ``start`` to ``end``."""

    worker: str
    state: What
    start: float
    end: float
    fence: int


class Scene(NamedTuple):
    """A part of the story: its spans, and its marks."""

    title: str
    start: float
    end: float
    spans: list[Span]
    marks: list[Event]

    def holds(self) -> list[Span]:
        """Return one span for each hold, in order of time.

        A span includes the time in which the holder is frozen but has an unexpired lease.
        """
        whole: dict[int, Span] = {}
        for span in self.spans:
            if span.state in (What.HELD, What.STOPPED):
                whole[span.fence] = whole.get(span.fence, span)._replace(end=span.end)
        return sorted(whole.values(), key=lambda s: s.start)

    def hand_offs(self) -> list[float]:
        """Return the seconds from each hold's end to the next hold, if the next holder waited."""
        asked = {s.fence: s.start for s in self.spans if s.state is What.ASKED}
        pairs = pairwise(self.holds())
        return [b.start - a.end for a, b in pairs if asked.get(b.fence, math.inf) < a.end]

    def overlaps(self) -> list[str]:
        """Return a text for each time at which two workers held the lock; there must be none."""
        return [
            f"{b.worker} got the lock {(a.end - b.start) * 1000:.1f} ms before {a.worker} lost it"
            for a, b in pairwise(self.holds())
            if b.start < a.end
        ]


def scenes(events: Iterable[Event]) -> list[Scene]:
    """Return the scenes of the story; the time of a scene begins with its first span."""
    parts: list[tuple[str, list[Event]]] = []
    for event in sorted(events, key=lambda e: e.at):
        if event.what is What.SCENE:
            parts.append((event.text, []))
        elif parts:
            parts[-1][1].append(event)
    found = []
    for title, part in parts:
        spans = [span for worker in workers(part) for span in _spans(worker, part)]
        marks = [event for event in part if event.what in MARKS]
        ends = [span.end for span in spans] + [mark.at for mark in marks]
        found.append(Scene(title, min(span.start for span in spans), max(ends), spans, marks))
    return found


def _spans(worker: str, events: list[Event]) -> Iterator[Span]:
    begun: Event | None = None
    fence = 0
    for event in events:
        if event.worker == worker and (event.what in STATES or event.what in _ENDS):
            fence = event.fence or fence
            if begun is not None:  # a wait gets the fence of the hold that it led to
                yield Span(worker, begun.what, begun.at, event.at, fence)
            begun = event if event.what in STATES else None


def workers(events: Iterable[Event]) -> list[str]:
    """Return the names of all workers with events, sorted."""
    return sorted({event.worker for event in events if event.worker})
