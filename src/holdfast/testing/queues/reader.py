"""From events to jobs and their executions: what is known of each, however much is missing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from ..histories import BadHistory

#: A job: its group and its number there.
Key = tuple[str, int]


class Execution:
    """One delivery of one job, and what came of it. Times are infinite where nothing is known."""

    __slots__ = (
        "asked",
        "died",
        "fence",
        "group",
        "how",
        "kept",
        "leaving",
        "left",
        "lost",
        "number",
        "took",
        "until",
        "worker",
    )

    def __init__(self, event: dict[str, Any]) -> None:
        self.worker: str = event["p"]
        self.took: float = event["t"]
        self.asked: float = event["asked"]
        self.group: str = event["group"]
        self.number: int = event["n"]
        self.fence: int = event["fence"]
        self.until: float = event["until"]
        self.lost = self.leaving = self.left = self.died = math.inf
        self.how = ""
        #: What settling it returned; None if that isn't known.
        self.kept: bool | None = None

    @property
    def end(self) -> float:
        """Until then it certainly went on, as far as its worker knew."""
        return min(self.leaving, self.lost, self.died, self.until)

    @property
    def done(self) -> bool:
        """May it have been acked?"""
        return self.how == "ack" and self.kept is not False

    def __repr__(self) -> str:
        return f"{self.worker} at {self.group or 'plain'}#{self.number} with fence {self.fence}"


class Jobs:
    """Takes in lines; afterwards it has every job and every execution that they speak of."""

    def __init__(self) -> None:
        self.events = 0
        self.first, self.last = math.inf, -math.inf
        self.dead: dict[str, float] = {}
        #: Jobs that were put, and whether the store has certainly accepted them.
        self.put: dict[Key, bool] = {}
        #: Jobs that the queue still had at the end.
        self.there: set[Key] = set()
        #: (process, duplicates) of what was sent once and has lost jobs as duplicates.
        self.dropped: list[tuple[str, int]] = []
        self.groups: dict[str, list[Execution]] = {}
        self._puts: dict[tuple[str, int], list[Key]] = {}
        self._executions: dict[tuple[str, int], Execution] = {}

    def read(self, lines: Iterable[str | bytes], file: str = "the history") -> None:
        """Take in the lines of one file; its last line may be cut short. ``BadHistory`` for any
        other that isn't an event."""
        torn = ""
        for number, line in enumerate(lines, 1):
            if torn:
                raise BadHistory(f"{file}, line {number - 1}: not an event: {torn!r:.200}")
            text = line if isinstance(line, str) else line.decode("utf-8", "replace")
            try:
                event = json.loads(text)
                self._event(event, event["op"], event["t"])
            except (ValueError, KeyError, TypeError):
                torn = text or " "
                continue
            self.events += 1
        if torn.endswith("\n"):
            raise BadHistory(f"{file}, the last line: not an event: {torn!r:.200}")

    def _event(self, event: dict[str, Any], op: str, now: float) -> None:
        self.first, self.last = min(self.first, now), max(self.last, now)
        if op in ("put", "accepted"):
            self._put(event, op)
        elif op == "took":
            self._took(event)
        elif op in ("look", "lost", "leaving", "left", "unknown"):
            self._went_on(self._executions[event["p"], event["c"]], event, op, now)
        elif op == "there":
            self.there.update((group, number) for group, number in event["jobs"])
        elif op == "dead":
            self.dead.setdefault(event["who"], now)
        elif op not in ("stopped", "continued", "bye"):
            raise ValueError(op)

    def _put(self, event: dict[str, Any], op: str) -> None:
        which = event["p"], event["w"]
        if op == "put":
            keys = self._puts[which] = [(group, number) for group, number in event["jobs"]]
            self.put.update(dict.fromkeys(keys, False))
            return
        self.put.update(dict.fromkeys(self._puts.pop(which), True))
        if event["dropped"] and event["sent"] == 1:
            self.dropped.append((event["p"], event["dropped"]))

    def _took(self, event: dict[str, Any]) -> None:
        one = self._executions[event["p"], event["c"]] = Execution(event)
        self.groups.setdefault(one.group, []).append(one)

    def _went_on(self, one: Execution, event: dict[str, Any], op: str, now: float) -> None:
        if op == "look":
            one.until = max(one.until, event["until"])
        elif op == "lost":
            one.lost = min(one.lost, now)
        elif op == "leaving":
            one.leaving, one.how = now, event["how"]
        elif op == "left":
            one.left, one.kept = now, event["kept"]
        else:
            one.left = now

    def finish(self) -> None:
        """There are no more lines."""
        for executions in self.groups.values():
            for one in executions:
                one.died = self.dead.get(one.worker, math.inf)
            executions.sort(key=lambda one: one.fence)
