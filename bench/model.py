"""What is measured and what came of it, as frozen records; results go to JSON and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .stats import Spread, median

#: What one round of a case gave: raw numbers, by what they are.
Reading = Mapping[str, Sequence[float]]
#: Takes one reading, with a fresh folder to do it in.
Read = Callable[[Path], Reading]
Fold = Callable[[Sequence[float]], float]


@dataclass(frozen=True)
class Column:
    """A column of a table: its key, its heading with the unit, and how it is compared.

    ``compare``: as a ``ratio`` to the reference, by how much it lies ``over`` it, or not at all.
    """

    key: str
    heading: str
    compare: Literal["", "ratio", "over"] = ""


@dataclass(frozen=True)
class Metric:
    """How a column is made from readings.

    ``of`` folds the numbers of one round into one, ``across`` those of the rounds. ``pooled``
    puts the numbers of all rounds together first: a far tail needs them all.
    """

    column: Column
    source: str
    of: Fold = median
    across: Fold = median
    pooled: bool = False


@dataclass(frozen=True)
class Case:
    """A row: how to take a reading of it, and one that is taken only once, without a clock."""

    label: str
    read: Read
    once: Read | None = None


@dataclass(frozen=True)
class Target:
    """What a figure must be.

    ``kind``: the ``value`` itself, its ``ratio`` to the reference, how many times it is
    ``faster`` than the reference, or by how much it lies ``over`` it. ``safety`` says that to
    miss it isn't slow but wrong.
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
        """Is it what it must be?"""
        return self._within(figure, self.at_most, self.at_least)

    def stretched(self, figure: float) -> bool:
        """Is it even what we hoped for?"""
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
    """One table to be measured: cases that take turns, what is read off them, and the targets.

    ``regime`` is a name in ``bench.regimes``. ``reference`` is the label of the case that the
    others are compared with.
    """

    key: str
    title: str
    regime: str
    cases: Sequence[Case]
    metrics: Sequence[Metric]
    reference: str
    rounds: int
    targets: Sequence[Target] = ()
    #: Contenders that can't take part here, and why.
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """A value, the quartiles of the rounds, and how it compares with the reference in them."""

    value: float
    rounds: Spread
    compared: Spread | None = None


@dataclass(frozen=True)
class Row:
    """A case with its figures, or with what went wrong."""

    label: str
    figures: Mapping[str, Figure]
    error: str = ""


@dataclass(frozen=True)
class Verdict:
    """A target and what was measured; ``figure`` is None if it could not be."""

    target: Target
    figure: float | None
    spread: Spread | None = None

    @property
    def met(self) -> bool:
        """Was it measured, and is it what it must be?"""
        return self.figure is not None and self.target.met(self.figure)

    @property
    def stretched(self) -> bool:
        """Is it even what we hoped for?"""
        return self.figure is not None and self.target.stretched(self.figure)


@dataclass(frozen=True)
class Result:
    """A table as it was measured. The parts of all cores that others used:
    ``foreign`` at usual priority, ``niced`` at a low one (with our spinners, if there were any).
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
        """What is not slow but wrong: cases that failed, safety targets that were missed."""
        wrong = [f"{row.label}: {row.error}" for row in self.rows if row.error]
        for verdict in self.verdicts:
            if verdict.target.safety and verdict.figure is not None and not verdict.met:
                target = verdict.target
                wrong.append(f"{target.case}: {target.column} is {verdict.figure:g}")
        return wrong

    def row(self, label: str) -> Row | None:
        """The row of a case, if it was measured."""
        return next((row for row in self.rows if row.label == label and not row.error), None)


def to_json(result: Result) -> dict[str, Any]:
    """A result as plain data."""
    plain = dataclasses.asdict(result)
    plain["absent"] = dict(result.absent)
    return plain


def from_json(plain: Mapping[str, Any]) -> Result:
    """The result that was written so."""
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
