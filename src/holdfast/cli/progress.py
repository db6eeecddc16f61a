"""Progress of a long operation: one line on stderr, for a person at the terminal."""

from __future__ import annotations

import sys

from ..runtime.blocking import boottime

#: A shorter operation prints nothing; a longer one prints at most once per the second number;
#: seconds.
AFTER_S = 1.0
EVERY_S = 0.2


class Progress:
    """A line that is overwritten again and again, at a terminal only."""

    def __init__(self, words: str) -> None:
        #: The text, with ``{}`` for the number.
        self.words = words
        self.on = sys.stderr is not None and sys.stderr.isatty()
        self.next = boottime() + AFTER_S
        self.shown = False

    def tell(self, done: int) -> None:
        """Show how many are done."""
        now = boottime()
        if self.on and now >= self.next:
            self.next, self.shown = now + EVERY_S, True
            self._write(f"\r\033[Kholdfast: {self.words.format(f'{done:,}')}")

    def over(self) -> None:
        """Remove the line: nothing more comes, and other output may follow."""
        if self.shown:
            self.shown = False
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        print(text, end="", file=sys.stderr, flush=True)
