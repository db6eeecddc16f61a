"""Tables and verdicts as text: the same for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .model import Column, Figure, Result, Row, Verdict
from .stats import Spread

#: A table is marked as noisy above these limits: the distance of the quartiles of a ratio, as a
#: part of it; and the part of all cores that other programs used.
WIDE, FOREIGN = 0.25, 0.10


def number(value: float) -> str:
    """Return a number with three significant digits, without an exponent.

    >>> number(0.01234), number(21.36), number(48213.0), number(0.0)
    ('0.0123', '21.4', '48,200', '0')
    """
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        digits = len(str(int(abs(value)))) - 3
        return f"{round(value, -digits):,.0f}"
    text = f"{value:.3g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text


def between(spread: Spread) -> str:
    """Return a median with its quartiles, as text."""
    if spread.low == spread.high:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.low)} to {number(spread.high)})"


def table(result: Result) -> Iterator[str]:
    """Yield the lines of a Markdown table with aligned columns."""
    heads = ["", *(head for column in result.columns for head in _heads(column, result))]
    lines = [[row.label, *_cells(row, result)] for row in result.rows if not row.error]
    widths = [max(len(line[at]) for line in [heads, *lines]) for at in range(len(heads))]
    yield _line(heads, widths)
    yield (
        "|"
        + "|".join("-" * (width + 1) + (":" if at else "-") for at, width in enumerate(widths))
        + "|"
    )
    for line in lines:
        yield _line(line, widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = [
        cell.rjust(width) if at else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "| " + " | ".join([first, *rest]) + " |"


def _heads(column: Column, result: Result) -> Iterator[str]:
    yield column.heading
    if column.compare == "ratio":
        yield f"x {result.reference}"
    elif column.compare == "over":
        yield f"over {result.reference}"


def _cells(row: Row, result: Result) -> Iterator[str]:
    for column in result.columns:
        figure = row.figures.get(column.key)
        yield "" if figure is None else number(figure.value)
        if column.compare:
            yield _compared(figure, row.label == result.reference, column)


def _compared(figure: Figure | None, is_reference: bool, column: Column) -> str:
    if is_reference:
        return "1" if column.compare == "ratio" else "0"
    return "" if figure is None or figure.compared is None else between(figure.compared)


def verdict(one: Verdict, result: Result) -> str:
    """Return a line: the target, the measured figure, and "met" or "MISSED"."""
    target = one.target
    what = {column.key: column.heading for column in result.columns}.get(target.column, "")
    against = target.against or result.reference
    measure = {
        "value": what,
        "ratio": f"{what}, x {against}",
        "faster": f"times faster than {against}",
        "over": f"{what} over {against}",
    }[target.kind]
    bound = (
        f"at most {target.at_most:g}"
        if target.at_most is not None
        else f"at least {target.at_least:g}"
    )
    head = f"{target.case}: {measure}: {bound}"
    if target.stretch is not None:
        head += f" (hoped for {target.stretch:g})"
    if one.figure is None:
        return f"{head}: not measured"
    text = number(one.figure)
    if one.spread is not None and target.kind != "value":
        text = between(one.spread)
    word = "MISSED" if not one.met else "met, and what we hoped for" if one.stretched else "met"
    return f"{head}: {text}: {word}"


def noise(result: Result) -> list[str]:
    """Return the reasons why this table is unreliable."""
    found = []
    if result.foreign is not None and result.foreign > FOREIGN:
        found.append(f"other programs used {result.foreign:.0%} of all cores meanwhile")
    for row in result.rows:
        wide = [
            figure.compared.width
            for column in result.columns
            if column.compare == "ratio"
            and (figure := row.figures.get(column.key)) is not None
            and figure.compared is not None
            and figure.compared.width > WIDE
        ]
        if wide:
            found.append(f"the ratios of {row.label} spread over {max(wide):.0%}")
    return found


def conditions(result: Result) -> str:
    """Return the conditions of the measurement: rounds, regime, load of other programs."""
    rounds = "one round" if result.rounds == 1 else f"{result.rounds} rounds"
    text = f"{rounds}, {result.regime}"
    if result.foreign is not None:
        text += f"; other programs used {result.foreign:.0%} of the cores"
    if result.niced is not None and result.niced > FOREIGN and "spinners" not in result.regime:
        text += f", and at low priority {result.niced:.0%}"
    return text


def text(result: Result) -> Iterator[str]:
    """Yield all lines about a result, for the terminal."""
    yield ""
    yield f"## {result.title}"
    yield f"{conditions(result)}; {result.seconds:g} s"
    yield ""
    if result.columns:
        yield from table(result)
    for row in result.rows:
        if row.error:
            yield f"FAILED  {row.label}: {row.error}"
    for label, why in result.absent.items():
        yield f"left out: {label}: {why}"
    for one in result.verdicts:
        yield f"target: {verdict(one, result)}"
    for line in noise(result):
        yield f"noisy: {line}"
