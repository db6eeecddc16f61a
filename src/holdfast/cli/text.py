"""Human-readable text: durations, tables, colours, and text that is safe to show.

Names, owners and metadata can be any text. Some characters can control a terminal or make one line
look like another: control bytes, escape sequences, and characters that change the direction of
writing. These are printed as their numbers.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from ..core import plain

#: Return any name or text in a form that is safe to print.
visible = plain.visible

#: Seconds in each unit that a duration may have.
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def seconds(text: str) -> float:
    """Return a written duration in seconds: ``90``, ``1.5s``, ``10m``, ``2h``.

    >>> [seconds(t) for t in ("90", "1.5s", "250ms", "10m", "2h", "1d")]
    [90.0, 1.5, 0.25, 600.0, 7200.0, 86400.0]
    """
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :] or "s"
    plain = number.isascii() and number.replace(".", "", 1).isdigit()
    if unit not in UNITS or not plain:
        raise ValueError(
            f"{visible(text)!r} is not a duration; write 90, 1.5s, 250ms, 10m, 2h or 1d"
        )
    return float(number) * UNITS[unit]


def span(length: float) -> str:
    """Return a number of seconds as readable text, in at most two units.

    >>> [span(s) for s in (0.0004, 0.25, 4.26, 61, 7322, 200000, float("inf"))]
    ['0 ms', '250 ms', '4.3 s', '1 m 1 s', '2 h 2 m', '2 d 7 h', 'ever']
    """
    if length == float("inf"):
        return "ever"
    if length < 1:
        return f"{max(length, 0.0) * 1000:.0f} ms"
    if length < 9.95:
        return f"{length:.1f} s"
    whole = round(length)
    if whole < 60:
        return f"{whole} s"
    big, small = next(
        pair for pair in (("d", "h"), ("h", "m"), ("m", "s")) if whole >= UNITS[pair[0]]
    )
    count, rest = divmod(whole, int(UNITS[big]))
    rest //= int(UNITS[small])
    return f"{count} {big} {rest} {small}" if rest else f"{count} {big}"


def ago(age: float) -> str:
    """Return an age in seconds as text; a negative age means unknown.

    >>> ago(4.26), ago(-1.0)
    ('4.3 s ago', 'unknown')
    """
    return f"{span(age)} ago" if age >= 0 else "unknown"


def due(left: float) -> str:
    """Return the seconds until something is due, as text.

    >>> due(30.0), due(float("inf"))
    ('in 30 s', 'never')
    """
    return f"in {span(left)}" if left < float("inf") else "never"


def lapses(left: float) -> str:
    """Return the end of a lease as text.

    The words "unless renewed" show that the name isn't necessarily free after this time.

    >>> lapses(30.0), lapses(float("inf"))
    ('in 30 s unless renewed', 'never')
    """
    return f"{due(left)} unless renewed" if left < float("inf") else "never"


def until(left: float) -> str:
    """Return the time of day ``left`` seconds from now, as text; ``left`` is less than a day."""
    from datetime import datetime, timedelta  # because most commands print no time of day

    return f"until {datetime.now().astimezone() + timedelta(seconds=left):%H:%M:%S}"


def count(number: int, what: str) -> str:
    """Return a number with its noun in the right form.

    >>> count(1, "waiter"), count(0, "waiter"), count(2, "process")
    ('1 waiter', '0 waiters', '2 processes')
    """
    ending = "" if number == 1 else "es" if what.endswith("s") else "s"
    return f"{number} {what}{ending}"


class Paint:
    """Colours for one stream; no colours if it isn't a terminal or ``NO_COLOR`` is set."""

    def __init__(self, stream: TextIO) -> None:
        dumb = os.environ.get("TERM", "dumb") == "dumb"
        self.on = not os.environ.get("NO_COLOR") and not dumb and stream.isatty()

    def __call__(self, text: str, colour: str) -> str:
        """Return the text in this colour, or unchanged if the stream has no colours."""
        return f"\033[{_COLOURS[colour]}m{text}\033[0m" if self.on else text


def table(rows: Sequence[Sequence[str]], paint: Paint, widest: int = 0) -> Iterable[str]:
    """Yield lines with aligned columns; the first row is the heading.

    The caller passes plain cells: `visible` and colours are applied here. ``widest`` is the maximum
    number of columns of a line; 0 means no limit.
    """
    safe = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(columns, cells)) for cells in zip(*safe, strict=True)]
    for number, row in enumerate(safe):
        cells = (
            cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True)
        )
        line = "  ".join(cells).rstrip()
        while widest and columns(line) > widest:
            line = line[: min(widest, len(line) - 1)]
        yield paint(line, "bold") if number == 0 else line


def columns(text: str) -> int:
    r"""Return the number of terminal columns that the text takes.

    >>> columns("abc"), columns("日本"), columns("e\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    wide = sum(east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(combining(c) > 0 for c in text)


def say(message: str) -> None:
    """Print one line for the user on stderr; ignore an error of stderr."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError, ValueError):
        print(f"holdfast: {visible(message)}", file=sys.stderr, flush=True)
