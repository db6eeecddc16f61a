"""Facts about the reads of refresh guards, and their only rule.

The rule "no stale value": a read returns no version older than the last change of the source whose
invalidation had returned when the read began.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .terms import Terms, Violation

if TYPE_CHECKING:
    from .reader import Reader


class Values:
    """Every read, and every change whose invalidation has returned."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.longest = 0.0
        #: The events of the reads.
        self.answers: list[dict[str, Any]] = []
        #: Key -> (time, version) of each invalidation.
        self.changes: dict[str, list[tuple[float, int]]] = {}
        self.takes = {
            "got": self._got,
            "changed": self._changed,
            "computed": self._count,
            "error": self._count,
        }

    def _count(self, event: dict[str, Any]) -> None:
        self.counts[event["op"]] += 1

    def _got(self, event: dict[str, Any]) -> None:
        self._count(event)
        self.longest = max(self.longest, event["t"] - event["asked"])
        self.answers.append(event)

    def _changed(self, event: dict[str, Any]) -> None:
        self._count(event)
        self.changes.setdefault(event["key"], []).append((event["t"], event["version"]))


def judge(reader: Reader, terms: Terms) -> Iterator[Violation]:
    """Compare the result of each read with the greatest version invalidated before the read."""
    floors: dict[str, tuple[list[float], list[int]]] = {}
    for key, changes in reader.values.changes.items():
        moments, versions, most = [], [], 0
        for moment, version in sorted(changes):
            most = max(most, version)
            moments.append(moment)
            versions.append(most)
        floors[key] = moments, versions
    for event in reader.values.answers:
        key, version = event["key"], event["version"]
        moments, versions = floors.get(key, ([], []))
        at = bisect_left(moments, event["asked"])
        floor = versions[at - 1] if at else 0
        if version < floor:
            text = f"{event['how']}: version {version}, though {floor} was invalidated before"
            yield Violation("no stale value", key, event["t"], text)


def figures(reader: Reader, terms: Terms) -> dict[str, float]:
    """Return the numbers for the report; empty if the history has no guards."""
    values = reader.values
    if not values.counts:
        return {}
    return {
        "reads": values.counts["got"],
        "changes": values.counts["changed"],
        "computed": values.counts["computed"],
        "errors": values.counts["error"],
        "longest read, s": values.longest,
    }
