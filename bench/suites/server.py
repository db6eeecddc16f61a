"""The time that the server reports for each verb, compared with a compare-and-delete script."""

from __future__ import annotations

import functools
from pathlib import Path

from .. import crew, regimes, servertime
from ..contenders import Arena
from ..model import Case, Column, Metric, Panel, Reading
from ..scale import Scale

_WITHIN_S = 60.0

METRICS = (Metric(Column("us", "µs", "ratio"), "us"),)


def panels(arena: Arena, scale: Scale) -> list[Panel]:
    """Return one panel with a row for each verb."""
    rounds = Rounds(arena, scale.of(500, 100))
    return [
        Panel(
            key="server",
            title="The server's time for a claim",
            regime=regimes.SPREAD,
            cases=[
                Case(label, functools.partial(rounds.read, label)) for label in servertime.LABELS
            ],
            metrics=METRICS,
            reference=servertime.REFERENCE,
            rounds=scale.rounds_of(30, 1),
            targets=arena.targets.get("server", ()),
        )
    ]


class Rounds:
    """Measures all verbs together, once in each round, and keeps the results for their rows."""

    def __init__(self, arena: Arena, names: int) -> None:
        self._arena, self._names = arena, names
        self._left: dict[str, float] = {}

    def read(self, label: str, place: Path) -> Reading:
        """Return the server's microseconds for one claim."""
        if label not in self._left:
            url = self._arena.url(place)
            self._left = crew.alone(lambda: servertime.measured(url, self._names), _WITHIN_S)
        return {"us": [self._left.pop(label)]}
