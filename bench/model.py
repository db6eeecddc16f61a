"""Data types of a measurement and of its results. Results can be converted to JSON and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .stats import Spread, median

#: The result of one round of a case: the name of a quantity -> its raw numbers.
Reading = Mapping[str, Sequence[float]]
#: Takes one reading in a new, empty folder.
Read = Callable[[Path], Reading]
Fold = Callable[[Sequence[float]], float]


@dataclass(frozen=True)
class Column:
    """A column of a table: its key, its heading with the unit, and how it is compared.

    ``compare``: show the ``ratio`` to the reference, the difference (``over``), or neither.
    """

    key: str
    heading: str
    compare: Literal["", "ratio", "over"] = ""


@dataclass(frozen=True)
class Metric:
    """How a column is computed from readings.

    ``of`` reduces the numbers of one round to one number; ``across`` reduces these to the result.
    With ``pooled``, ``of`` gets the numbers of all rounds together: a far tail needs many numbers.
    """

    column: Column
    source: str
    of: Fold = median
    across: Fold = median
    pooled: bool = False


@dataclass(frozen=True)
class Case:
    """A row: ``read`` takes a reading in each round; ``once`` takes a reading after all rounds."""

    label: str
    read: Read
    once: Read | None = None


@dataclass(frozen=True)
class Target:
    """A condition for a figure.

    ``kind`` is the tested quantity: the ``value``, its ``ratio`` to the reference, the inverse of
    that (``faster``), or the difference (``over``). ``stretch`` is a limit that we hope for.
    With ``safety``, a miss isn't a slow result but an error.
    """

    case: str
    column: str
    kind: Literal["value", "ratio", "faster", "over"]
    at_most: float | None = None
    at_least: float | None = None
    stretch: float | None = None
    against: str = ""
    safety: bool = False

    def met(self, figure: float) -> bool:
        """Return True if the figure meets the condition."""
        return self._within(figure, self.at_most, self.at_least)

    def stretched(self, figure: float) -> bool:
        """Return True if the figure also meets the limit that we hoped for."""
        if self.stretch is None:
            return False
        if self.at_most is not None:
            return self._within(figure, self.stretch, None)
        return self._within(figure, None, self.stretch)

    @staticmethod
    def _within(figure: float, most: float | None, least: float | None) -> bool:
        return (most is None or figure <= most) and (least is None or figure >= least)


@dataclass(frozen=True)
class Panel:
    """One table to measure: its cases, the metrics of their readings, and the targets.

    ``regime`` is a name in ``bench.regimes``. ``reference`` is the label of the case to which the
    others are compared.
    """

    key: str
    title: str
    regime: str
    cases: Sequence[Case]
    metrics: Sequence[Metric]
    reference: str
    rounds: int
    targets: Sequence[Target] = ()
    #: A contender that can't take part -> the reason.
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A value, its quartiles over the rounds, and the spread of its ratio to the reference."""

    value: float
    rounds: Spread
    compared: Spread | None = None


@dataclass(frozen=True)
class Row:
    """A case with its figures, or with its error."""

    label: str
    figures: Mapping[str, Figure]
    error: str = ""


@dataclass(frozen=True)
class Verdict:
    """A target and the measured figure; None if it could not be measured."""

    target: Target
    figure: float | None
    spread: Spread | None = None

    @property
    def met(self) -> bool:
        """True if the figure was measured and meets the target."""
        return self.figure is not None and self.target.met(self.figure)

    @property
    def stretched(self) -> bool:
        """True if the figure also meets the limit that we hoped for."""
        return self.figure is not None and self.target.stretched(self.figure)


@dataclass(frozen=True)
class Result:
    """A measured table.

    ``foreign`` and ``niced`` are the parts of all cores that other programs used meanwhile: at
    usual priority, and at low priority (including our spinners).
    """

    arena: str
    suite: str
    key: str
    title: str
    regime: str
    reference: str
    rounds: int
    seconds: float
    foreign: float | None
    niced: float | None
    when: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    verdicts: Sequence[Verdict]
    absent: Mapping[str, str]

    @property
    def failed(self) -> list[str]:
        """A text for each case that failed, and for each safety target that was missed."""
        wrong = [f"{row.label}: {row.error}" for row in self.rows if row.error]
        for verdict in self.verdicts:
            if verdict.target.safety and verdict.figure is not None and not verdict.met:
                target = verdict.target
                wrong.append(f"{target.case}: {target.column} is {verdict.figure:g}")
        return wrong

    def row(self, label: str) -> Row | None:
        """Return the row of a case; None if it was not measured."""
        return next((row for row in self.rows if row.label == label and not row.error), None)


def to_json(result: Result) -> dict[str, Any]:
    """Return a result as plain data for JSON."""
    plain = dataclasses.asdict(result)
    plain["absent"] = dict(result.absent)
    return plain


def from_json(plain: Mapping[str, Any]) -> Result:
    """Return the result from the data that `to_json` returned."""
    return Result(
        **{
            **plain,
            "columns": [Column(**column) for column in plain["columns"]],
            "rows": [_row(row) for row in plain["rows"]],
            "verdicts": [
                Verdict(Target(**one["target"]), one["figure"], _spread(one["spread"]))
                for one in plain["verdicts"]
            ],
        }
    )


def _row(plain: Mapping[str, Any]) -> Row:
    figures = {
        key: Figure(one["value"], Spread(*one["rounds"]), _spread(one["compared"]))
        for key, one in plain["figures"].items()
    }
    return Row(plain["label"], figures, plain["error"])


def _spread(plain: Sequence[float] | None) -> Spread | None:
    return None if plain is None else Spread(*plain)
