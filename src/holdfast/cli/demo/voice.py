"""Prints the story: wrapped, in colours at a terminal, without colours elsewhere."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap

from ..text import Paint
from .history import Event

#: The signs in ASCII, and the same signs in Unicode: success, a signal was sent, holds, waits,
#: frozen, lease expired.
_PLAIN, _BLOCKS = "+x#.=~", "\u2713\u2717\u2588\u2591\u2592\u254c"
_COLOURS = {"+": "green", "x": "red", "#": "green", "=": "yellow", "~": "yellow", "!": "red"}


class Voice:
    """Prints the story line by line, without buffering."""

    def __init__(self) -> None:
        self.width = max(40, min(80, shutil.get_terminal_size((80, 24)).columns))
        self._paint = Paint(sys.stdout)
        self._blocks: dict[int, int] = {}
        try:
            _BLOCKS.encode(sys.stdout.encoding)
            self._blocks = str.maketrans(_PLAIN, _BLOCKS)
        except UnicodeEncodeError:
            pass

    def head(self, text: str) -> None:
        """Print the heading of a part."""
        print(f"\n{self._paint(text, 'bold')}", flush=True)

    def say(self, text: str, sign: str = " ") -> None:
        """Print a wrapped paragraph with a sign before it."""
        lines = textwrap.wrap(text, self.width - 6, break_on_hyphens=False)
        print(f"   {self.signs(sign)} " + "\n     ".join(lines), flush=True)

    def signs(self, text: str) -> str:
        """Return these signs, in Unicode and in colours if the terminal can show both."""

        def shown(run: re.Match[str]) -> str:
            text = run[0].translate(self._blocks)
            return self._paint(text, _COLOURS[run[1]]) if run[1] in _COLOURS else text

        return re.sub(r"(.)\1*", shown, text)

    def columns(self) -> None:
        """Print the head of the table of entries."""
        print(f"  entry  by   {'waited':>8}  {'fence':>16}  amount  balance", flush=True)

    def entry(self, event: Event, waited: float) -> None:
        """Print the row of a written entry; ``waited``: the seconds that its writer had waited."""
        if event.entry:
            number, amount, balance, who, fence, _ = event.entry
            row = f"{number:>7}  {who:<3}  {ms(waited):>8}  {fence:>16}  {amount:>+6}  {balance:>7}"
            print(row, flush=True)


def ms(seconds: float) -> str:
    """Return a short time as text.

    >>> [ms(s) for s in (0.00042, 0.0042, 0.42, 4.2)]
    ['0.42 ms', '4.2 ms', '420 ms', '4200 ms']
    """
    value = seconds * 1000
    return f"{value:.{2 if value < 1 else 1 if value < 10 else 0}f} ms"
