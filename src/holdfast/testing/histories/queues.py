"""Facts about jobs and their executions, from the events of a history."""

from __future__ import annotations

import math
from typing import Any

#: A job: its group, and its number in the group.
Key = tuple[str, int]


class Execution:
    """One delivery of one job, and its result. A time that is unknown is infinite."""

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
        #: The result of settling; None if it is unknown.
        self.kept: bool | None = None

    @property
    def end(self) -> float:
        """The time until which the execution certainly ran, with a valid delivery."""
        return min(self.leaving, self.lost, self.died, self.until)

    @property
    def done(self) -> bool:
        """True if the job was acked, or can have been acked."""
        return self.how == "ack" and self.kept is not False

    def on_look(self, event: dict[str, Any]) -> None:
        """Record that a check has passed."""
        self.until = max(self.until, event["until"])

    def on_lost(self, event: dict[str, Any]) -> None:
        """Record that the loss is known."""
        self.lost = min(self.lost, event["t"])

    def on_leaving(self, event: dict[str, Any]) -> None:
        """Record that the job is about to be settled."""
        self.leaving, self.how = event["t"], event["how"]

    def on_left(self, event: dict[str, Any]) -> None:
        """Record the result of settling."""
        self.left, self.kept = event["t"], event["kept"]

    def on_unknown(self, event: dict[str, Any]) -> None:
        """Record that the request to settle got no reply."""
        self.left = event["t"]

    def __repr__(self) -> str:
        return f"{self.worker} at {self.group or 'plain'}#{self.number} with fence {self.fence}"


class Jobs:
    """Every job, and every execution by its group."""

    def __init__(self, acts: dict[tuple[str, int], Any]) -> None:
        #: Job that was put -> True if the store has certainly accepted it.
        self.put: dict[Key, bool] = {}
        #: Jobs that were still in the queue at the end.
        self.there: set[Key] = set()
        #: (process, number of duplicates) of each put that was sent once and had duplicates.
        self.dropped: list[tuple[str, int]] = []
        self.groups: dict[str, list[Execution]] = {}
        self._puts: dict[tuple[str, int], list[Key]] = {}
        self._executions = acts
        self.takes = {
            "put": self._put,
            "accepted": self._accepted,
            "took": self._took,
            "there": self._there,
        }

    def finish(self, dead: dict[str, float]) -> None:
        """Complete the facts after the last line."""
        for executions in self.groups.values():
            for one in executions:
                one.died = dead.get(one.worker, math.inf)
            executions.sort(key=lambda one: one.fence)

    def _put(self, event: dict[str, Any]) -> None:
        keys = [(group, number) for group, number in event["jobs"]]
        self._puts[event["p"], event["w"]] = keys
        self.put.update(dict.fromkeys(keys, False))

    def _accepted(self, event: dict[str, Any]) -> None:
        self.put.update(dict.fromkeys(self._puts.pop((event["p"], event["w"])), True))
        if event["dropped"] and event["sent"] == 1:
            self.dropped.append((event["p"], event["dropped"]))

    def _took(self, event: dict[str, Any]) -> None:
        one = self._executions[event["p"], event["c"]] = Execution(event)
        self.groups.setdefault(one.group, []).append(one)

    def _there(self, event: dict[str, Any]) -> None:
        self.there.update((group, number) for group, number in event["jobs"])
