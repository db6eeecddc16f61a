"""Measures a panel in rounds, and computes its figures and the verdicts on the targets."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import machine, regimes
from .model import Case, Column, Figure, Metric, Panel, Read, Reading, Result, Row, Target, Verdict
from .stats import Spread, spread

#: The number of a round -> the reading of that round.
Taken = dict[int, Reading]
Say = Callable[[str], None]


class Taking:
    """The readings of one panel while they are taken."""

    def __init__(self, panel: Panel, quiet: machine.Quiet) -> None:
        self.panel = panel
        self.quiet = quiet
        self.taken: dict[str, Taken] = {case.label: {} for case in panel.cases}
        self.once: dict[str, Reading] = {}
        self.errors: dict[str, str] = {}
        self.used = machine.Used()

    def round(self, number: int) -> None:
        """Take a reading of every case; the order rotates. A case that has failed is skipped."""
        cases = list(self.panel.cases)
        turn = number % len(cases)
        for case in cases[turn:] + cases[:turn]:
            reading = self._read(case, case.read)
            if reading is not None:
                self.taken[case.label][number] = reading

    def finish(self) -> None:
        """Take the readings that are taken only once, after all rounds."""
        for case in self.panel.cases:
            if case.once is not None:
                reading = self._read(case, case.once)
                if reading is not None:
                    self.once[case.label] = reading

    def _read(self, case: Case, read: Read) -> Reading | None:
        if case.label in self.errors:
            return None
        while True:
            self.quiet.wait()
            load = machine.Load()
            place = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
            try:
                reading = read(place)
            except Exception as failure:
                self.errors[case.label] = f"{type(failure).__name__}: {failure}"
                return None
            finally:
                shutil.rmtree(place, ignore_errors=True)
            used = load.used()
            if not self.quiet.spoilt(load):
                self.used = self.used.plus(used)
                return reading

    # -- figures -----------------------------------------------------------------------------

    def row(self, case: Case) -> Row:
        """Return the figures of a case, or its error."""
        error = self.errors.get(case.label, "")
        if error:
            return Row(case.label, {}, error)
        figures = {}
        for metric in self.panel.metrics:
            figure = self._figure(case.label, metric)
            if figure is not None:
                figures[metric.column.key] = figure
        return Row(case.label, figures)

    def _figure(self, label: str, metric: Metric) -> Figure | None:
        mine = self.by_round(label, metric)
        if not mine:
            return None
        values = list(mine.values())
        if metric.pooled:
            every = [n for reading in self._readings(label) for n in reading.get(metric.source, ())]
            value = metric.of(every)
        else:
            value = metric.across(values)
        compared = None
        if metric.column.compare and label != self.panel.reference:
            theirs = self.by_round(self.panel.reference, metric)
            compared = _compared(mine, theirs, COMPARED[metric.column.compare])
        return Figure(value, spread(values), compared)

    def _readings(self, label: str) -> list[Reading]:
        return [*self.taken[label].values(), *([self.once[label]] if label in self.once else [])]

    def by_round(self, label: str, metric: Metric) -> dict[int, float]:
        """Return the value of each round that has one; a reading that is taken once is round -1."""
        rounds = {**self.taken.get(label, {}), -1: self.once.get(label, {})}
        return {
            number: metric.of(reading[metric.source])
            for number, reading in rounds.items()
            if reading.get(metric.source)
        }

    # -- verdicts ----------------------------------------------------------------------------

    def verdict(self, target: Target, rows: Mapping[str, Row]) -> Verdict:
        """Return a target with the figure that was measured for it."""
        metric = next(m for m in self.panel.metrics if m.column.key == target.column)
        row = rows.get(target.case)
        if row is None or target.column not in row.figures:
            return Verdict(target, None)
        figure = row.figures[target.column]
        if target.kind == "value":
            return Verdict(target, figure.value, figure.rounds)
        mine = self.by_round(target.case, metric)
        theirs = self.by_round(target.against or self.panel.reference, metric)
        seen = _compared(mine, theirs, COMPARED[target.kind])
        return Verdict(target, seen.median if seen else None, seen)


COMPARED: Mapping[str, Callable[[float, float], float | None]] = {
    "ratio": lambda ours, theirs: ours / theirs if theirs else None,
    "faster": lambda ours, theirs: theirs / ours if ours else None,
    "over": lambda ours, theirs: ours - theirs,
}


def _compared(
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
    how: Callable[[float, float], float | None],
) -> Spread | None:
    """Compare two cases in each round that has both; return the median and quartiles."""
    both = [how(ours[number], theirs[number]) for number in ours if number in theirs]
    seen = [one for one in both if one is not None]
    return spread(seen) if seen else None


def measure(arena: str, suite: str, panel: Panel, say: Say, quiet: machine.Quiet) -> Result:
    """Measure all rounds of one panel under its regime; return the result."""
    taking = Taking(panel, quiet)
    begun = time.monotonic()
    with regimes.entered(panel.regime) as regime:
        for number in range(panel.rounds if panel.cases else 0):
            say(f"{suite} {panel.key}: round {number + 1} of {panel.rounds}")
            taking.round(number)
        foreign, niced = taking.used.parts()
        taking.finish()
    rows = [taking.row(case) for case in panel.cases]
    named = {row.label: row for row in rows}
    return Result(
        arena=arena,
        suite=suite,
        key=panel.key,
        title=panel.title,
        regime=regime,
        reference=panel.reference,
        rounds=panel.rounds,
        seconds=round(time.monotonic() - begun, 1),
        foreign=foreign,
        niced=niced,
        when=time.strftime("%Y-%m-%d", time.gmtime()),
        columns=_columns(panel, rows),
        rows=rows,
        verdicts=[taking.verdict(target, named) for target in panel.targets],
        absent=dict(panel.absent),
    )


def _columns(panel: Panel, rows: Sequence[Row]) -> list[Column]:
    """Return the columns with a figure in at least one row."""
    return [
        metric.column
        for metric in panel.metrics
        if any(metric.column.key in row.figures for row in rows)
    ]
