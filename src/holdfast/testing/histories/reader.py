"""Reads the lines of a history, even of an incomplete one, in one pass and any order of files.

The events of one claim or execution were written by one process, in order. An event that is missing
stays unknown: a claim without an answer can have been held or not, so such a claim proves nothing
and excuses nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from .locks import Locks
from .queues import Jobs
from .refresh import Values

Event = dict[str, Any]


class BadHistory(ValueError):
    """A line that isn't an event; the message has its number and its text."""


class Reader:
    """Reads lines, and collects the facts about each product."""

    def __init__(self) -> None:
        self.events = 0
        self.first, self.last = math.inf, -math.inf
        #: Processes that recorded their end; processes that were killed -> the time of the kill.
        self.ended: set[str] = set()
        self.dead: dict[str, float] = {}
        #: Process -> (from, to) of each time in which it was stopped.
        self.stops: dict[str, list[tuple[float, float]]] = {}
        self._stopped: dict[str, float] = {}
        #: (process, number) -> the claim or the execution of this number, for its later events.
        acts: dict[tuple[str, int], Any] = {}
        self.locks, self.jobs, self.values = Locks(acts), Jobs(acts), Values()
        self._take: dict[str, Callable[[Event], None]] = {
            **self.locks.takes,
            **self.jobs.takes,
            **self.values.takes,
            **{op: _went_on(acts, op) for op in ("look", "lost", "leaving", "left", "unknown")},
            "dead": self._dead,
            "stopped": self._stop,
            "continued": self._go_on,
            "bye": self._bye,
        }

    def read(self, lines: Iterable[str | bytes], file: str = "the history") -> None:
        """Read the lines of one file; raise ``BadHistory`` for a line that isn't an event.

        The last line may be incomplete, because a process can be killed on a full disk.
        """
        take, decode = self._take, json.JSONDecoder().raw_decode
        first, last, number = self.first, self.last, 0
        torn = ""
        for number, line in enumerate(lines, 1):
            text = line if isinstance(line, str) else line.decode("utf-8", "replace")
            if torn:
                raise BadHistory(f"{file}, line {number - 1}: not an event: {torn!r:.200}")
            try:
                event, end = decode(text)
                if text[end:].strip():
                    raise ValueError(text)
                now = event["t"]
                take[event["op"]](event)
            except (ValueError, KeyError, TypeError, AttributeError):
                torn = text or " "
                continue
            if now < first:
                first = now
            if now > last:
                last = now
        if torn.endswith("\n"):
            raise BadHistory(f"{file}, line {number}: not an event: {torn!r:.200}")
        self.events += number
        self.first, self.last = first, last

    def finish(self) -> None:
        """Complete the facts after the last line."""
        for who, since in self._stopped.items():
            self.stops.setdefault(who, []).append((since, math.inf))
        self._stopped.clear()
        self.locks.finish(self.dead)
        self.jobs.finish(self.dead)

    def stopped(self, worker: str, start: float, end: float) -> float:
        """Return the seconds of this span for which the worker was stopped."""
        over = 0.0
        for since, until in sorted(self.stops.get(worker, ())):
            # A stop can be recorded twice: by the process that caused the stop, and by the worker.
            start = max(start, since)
            over += max(0.0, min(end, until) - start)
            start = max(start, until)
        return over

    def _dead(self, event: Event) -> None:
        self.dead.setdefault(event["who"], event["t"])

    def _stop(self, event: Event) -> None:
        self._stopped[event["who"]] = event["t"]

    def _go_on(self, event: Event) -> None:
        since = self._stopped.pop(event["who"], None)
        if since is not None:
            self.stops.setdefault(event["who"], []).append((since, event["t"]))

    def _bye(self, event: Event) -> None:
        self.ended.add(event["p"])


def _went_on(acts: dict[tuple[str, int], Any], op: str) -> Callable[[Event], None]:
    method = f"on_{op}"

    def take(event: Event) -> None:
        getattr(acts[event["p"], event["c"]], method)(event)

    return take
