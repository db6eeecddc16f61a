"""Progress of a long operation: one line on stderr, for a user at a terminal."""

from __future__ import annotations

import sys

from ..runtime.blocking import boottime

#: Seconds until the first output, and minimum seconds between two outputs.
AFTER_S = 1.0
EVERY_S = 0.2


class Progress:
    """A line on stderr that is overwritten; it is printed only if stderr is a terminal."""

    def __init__(self, words: str) -> None:
        #: The text, with ``{}`` for the number.
        self.words = words
        self.on = sys.stderr is not None and sys.stderr.isatty()
        self.next = boottime() + AFTER_S
        self.shown = False

    def tell(self, done: int) -> None:
        """Show the number of things that are done so far."""
        now = boottime()
        if self.on and now >= self.next:
            self.next, self.shown = now + EVERY_S, True
            self._write(f"\r\033[Kholdfast: {self.words.format(f'{done:,}')}")

    def over(self) -> None:
        """Remove the line, so that other output can follow."""
        if self.shown:
            self.shown = False
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        print(text, end="", file=sys.stderr, flush=True)
