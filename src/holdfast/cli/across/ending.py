"""The signals that end ``acquire`` and ``pick``."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator

#: What ends us like Ctrl-C, so that what was asked for is withdrawn.
QUITTING = ("INT", "TERM", "HUP", "QUIT")


class Ended(KeyboardInterrupt):
    """A signal came that ends us."""

    number = 0


class Ending:
    """Ends us at once while we wait in line. From the first token on a signal is only noted, and
    looked for between two steps, because a step that stops midway leaves a hold that nobody can
    release; and because a hold that is whole must not end with the status of a signal.
    """

    def __init__(self) -> None:
        self._number = 0
        self._noting = self._once = False
        for name in QUITTING:
            number = getattr(signal, "SIG" + name, None)
            usual = (signal.SIG_DFL, signal.default_int_handler)
            if number is not None and signal.getsignal(number) in usual:
                signal.signal(number, self._came)

    def _came(self, number: int, frame: object) -> None:
        self._number = self._number or number
        if not self._noting:
            self._noting = self._once
            self.look()

    def note(self) -> None:
        """From now on signals are only noted."""
        self._noting = self._once = True

    def look(self) -> None:
        """Raise ``Ended`` if a signal came."""
        if self._number:
            ended = Ended()
            ended.number = self._number
            raise ended

    @contextlib.contextmanager
    def at_once(self) -> Generator[None]:
        """A step that may take for ever: one signal ends it, and what follows isn't disturbed."""
        self._noting = False
        try:
            self.look()
            yield
        finally:
            self._noting = True
