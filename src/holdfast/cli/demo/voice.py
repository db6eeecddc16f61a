"""How the story is told: wrapped to the terminal, coloured on a terminal, plain everywhere else."""

from __future__ import annotations

import enum
import os
import shutil
import textwrap
from typing import NamedTuple, TextIO

from .history import Event

WIDTH_MIN, WIDTH_MAX = 40, 80
#: From this many columns on the table of entries has its fences.
_WIDE = 70


class Mark(enum.Enum):
    """The sign before a line: its form, its form in ASCII, its colour (SGR)."""

    NONE = (" ", " ", "")
    GOOD = ("\u2713", "+", "32")
    NO = ("\u00b7", "-", "2")
    BLOW = ("\u2717", "x", "31")
    WRONG = ("\u2717", "!", "1;31")


class Style(NamedTuple):
    """What the terminal can show: columns, and whether it has colours and more than ASCII."""

    width: int
    unicode: bool
    colour: bool

    def paint(self, text: str, sgr: str) -> str:
        """The text in a colour, where there are colours."""
        return f"\x1b[{sgr}m{text}\x1b[0m" if self.colour and sgr and text.strip() else text


def style_of(out: TextIO) -> Style:
    """What can be shown there, as far as it can be known.

    Piped output is plain and 80 columns wide. ``COLUMNS``, ``NO_COLOR`` and ``TERM=dumb`` are
    honoured; a locale of C or POSIX, or an encoding without block characters, means ASCII.
    """
    terminal = out.isatty()
    columns = shutil.get_terminal_size((WIDTH_MAX, 24)).columns
    return Style(
        width=max(WIDTH_MIN, min(WIDTH_MAX, columns)),
        unicode=_has_blocks(out),
        colour=terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
    )


def _has_blocks(out: TextIO) -> bool:
    try:
        "\u2588\u2591\u2713\u2026\u00b7".encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    named = next((v for n in ("LC_ALL", "LC_CTYPE", "LANG") if (v := os.environ.get(n))), "")
    return named not in ("C", "POSIX")


class Unheard(OSError):
    """Nobody can hear the story: its output takes nothing."""


class Voice:
    """Tells the story line by line, at once."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.style = style_of(out)

    def title(self, text: str) -> None:
        """The first line."""
        self.raw(self.style.paint(text, "1"))

    def head(self, number: int, text: str) -> None:
        """The beginning of a part."""
        self.raw("")
        self.raw(self.style.paint(f"{number}  {text}", "1"))

    def say(self, text: str, mark: Mark = Mark.NONE) -> None:
        """A paragraph, wrapped."""
        sign = mark.value[0 if self.style.unicode else 1]
        lines = textwrap.wrap(
            text, self.style.width - 6, break_long_words=True, break_on_hyphens=False
        )
        for at, line in enumerate(lines):
            self.raw(f"   {self.style.paint(sign if at == 0 else ' ', mark.value[2])} {line}")

    def raw(self, line: str) -> None:
        """A line as it is, but for what the terminal can't encode."""
        encoding = self._out.encoding or "ascii"
        try:
            self._out.write(line.encode(encoding, "replace").decode(encoding) + "\n")
            self._out.flush()
        except BrokenPipeError:
            raise
        except OSError as wrong:
            raise Unheard(f"the story can't be written: {wrong.strerror}") from wrong

    def columns(self) -> None:
        """The head of the table of entries."""
        if self.style.width < _WIDE:
            row = f"    {'entry':>5} {'by':<3} {'waited':>8} {'amount':>6} {'total':>6}"
        else:
            row = f"{'entry':>10}  by   {'waited':>9}  {'fence':>18}  {'amount':>6}  {'balance':>7}"
        self.raw(self.style.paint(row, "2"))

    def entry(self, event: Event, waited: float) -> None:
        """An entry that was just written, and how long its writer had waited for the lock."""
        number, who, amount, balance = event.number, event.worker, event.amount, event.balance
        if self.style.width < _WIDE:
            row = f"    {number:>5} {who:<3} {ms(waited):>8} {amount:>+6} {balance:>6}"
        else:
            row = (
                f"{number:>10}  {who:<3}  {ms(waited):>9}  {event.fence:>18}  "
                f"{amount:>+6}  {balance:>7}"
            )
        self.raw(row)


def ms(seconds: float) -> str:
    """A short time in words.

    >>> [ms(s) for s in (0.00042, 0.0042, 0.42, 4.2)]
    ['0.42 ms', '4.2 ms', '420 ms', '4200 ms']
    """
    value = seconds * 1000
    digits = 2 if value < 1 else 1 if value < 10 else 0
    return f"{value:.{digits}f} ms"


def count(number: int) -> str:
    """A small number in words.

    >>> count(8)
    'eight'
    """
    words = ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    return words[number] if 0 <= number < len(words) else str(number)
