"""What was measured, and what follows from it: who waited and who held, from when to when.

Every time is the machine's monotonic clock, read by the process to which the thing happened at
the moment when it happened; all processes of one machine share that clock. Nothing is drawn or
claimed that isn't derived from these events.
"""

from __future__ import annotations

import enum
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class What(enum.StrEnum):
    """What happened. ``KILLED`` to ``SCENE`` are noted by the story, the others by workers."""

    READY = "ready"
    ASKED = "asked"
    HELD = "held"
    BUSY = "busy"
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
    """One thing that happened to a worker. ``at`` is in seconds, ``took`` too."""

    at: float
    worker: str
    what: What
    fence: int = 0
    took: float = 0.0
    number: int = 0
    amount: int = 0
    balance: int = 0
    text: str = ""

    def encode(self) -> bytes:
        """One line of JSON."""
        return json.dumps(self).encode() + b"\n"


def decode(line: bytes) -> Event:
    """The event on a line."""
    at, worker, what, *rest = json.loads(line)
    return Event(at, worker, What(what), *rest)


class State(enum.Enum):
    """What a worker is doing in a span of time."""

    WAITS = "waits"
    HOLDS = "holds"
    FROZEN = "frozen, its lease runs"
    STALE = "frozen, its lease is over"


class Span(NamedTuple):
    """A worker in one state, from ``start`` to ``end``."""

    worker: str
    state: State
    start: float
    end: float
    fence: int = 0


class Scene(NamedTuple):
    """A part of the story: its spans, and the single moments that deserve a mark."""

    title: str
    start: float
    end: float
    spans: list[Span]
    marks: list[Event]

    def holds(self) -> list[Span]:
        """Who held the lock, from when to when: one span for each hold, in order of time.

        A frozen holder still excludes the others until its lease is over.
        """
        whole: dict[int, Span] = {}
        for span in sorted(self.spans, key=lambda s: s.start):
            if span.state in (State.HOLDS, State.FROZEN):
                first = whole.get(span.fence, span)
                whole[span.fence] = first._replace(end=span.end)
        return sorted(whole.values(), key=lambda s: s.start)

    def hand_offs(self) -> list[float]:
        """Seconds from the end of each hold to the start of the next that was waiting for it."""
        waits = {s.fence: s for s in self.spans if s.state is State.WAITS}
        holds = self.holds()
        return [
            after.start - before.end
            for before, after in itertools.pairwise(holds)
            if after.fence in waits and waits[after.fence].start < before.end
        ]


MARKS = (What.KILLED, What.REJECTED, What.CONTINUED)
#: What ends a span, and the state that begins with it, if the worker was in the state before.
_NEXT: dict[What, State | None] = {
    What.ASKED: State.WAITS,
    What.HELD: State.HOLDS,
    What.STOPPED: State.FROZEN,
    What.EXPIRED: State.STALE,
    What.CONTINUED: None,
    What.LEAVING: None,
    What.BUSY: None,
    What.KILLED: None,
}


def scenes(events: Iterable[Event]) -> list[Scene]:
    """The story by its scenes; a scene begins when its first worker does something."""
    parts: list[tuple[str, list[Event]]] = []
    for event in sorted(events, key=lambda e: e.at):
        if event.what is What.SCENE:
            parts.append((event.text, []))
        elif parts:
            parts[-1][1].append(event)
    return [_scene(title, part) for title, part in parts if part]


def _scene(title: str, events: list[Event]) -> Scene:
    spans = [span for worker in workers(events) for span in _spans(worker, events)]
    marks = [event for event in events if event.what in MARKS]
    start = min((span.start for span in spans), default=events[0].at)
    end = max((span.end for span in spans), default=events[-1].at)
    return Scene(title, start, max([end, *(mark.at for mark in marks)]), spans, marks)


def _spans(worker: str, events: list[Event]) -> Iterator[Span]:
    state: State | None = None
    since, fence = 0.0, 0
    for event in events:
        if event.worker != worker or event.what not in _NEXT:
            continue
        if state is not None:
            # The wait is known by the fence that it led to.
            yield Span(worker, state, since, event.at, event.fence or fence)
        state, since, fence = _NEXT[event.what], event.at, event.fence or fence


def workers(events: Iterable[Event]) -> list[str]:
    """Everybody who did something, by name."""
    return sorted({event.worker for event in events if event.worker})


def overlaps(scene: Scene) -> list[str]:
    """Where two workers held the lock at the same time, in words; there must be none."""
    wrong = []
    latest: Span | None = None
    for hold in scene.holds():
        if latest is not None and hold.start < latest.end:
            early = (latest.end - hold.start) * 1000
            wrong.append(
                f"{hold.worker} held the lock {early:.1f} ms before {latest.worker} had left it"
            )
        if latest is None or hold.end > latest.end:
            latest = hold
    return wrong
