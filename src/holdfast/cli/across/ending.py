"""The signals that end ``acquire`` and ``pick``."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator

#: Signals that end the command. As after Ctrl-C, the command withdraws its claim first.
QUITTING = ("INT", "TERM", "HUP", "QUIT")


class Ended(KeyboardInterrupt):
    """A signal that ends the command has arrived."""

    number = 0


class Ending:
    """Ends the command when a signal arrives: at once in the wait; after the wait, between steps.

    A step that stops midway would leave a hold that no client can release. So once the command
    makes tokens, a signal is only noted, and ``look`` raises `Ended` between two steps. A command
    that has completed all steps must not end with the status of a signal.
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
        """Make later signals wait for ``look``."""
        self._noting = self._once = True

    def look(self) -> None:
        """Raise ``Ended`` if a signal has arrived."""
        if self._number:
            ended = Ended()
            ended.number = self._number
            raise ended

    @contextlib.contextmanager
    def at_once(self) -> Generator[None]:
        """Run a step that can block without a time limit, so that a signal interrupts it.

        Only the first signal interrupts the step. Later signals don't interrupt the clean-up.
        """
        self._noting = False
        try:
            self.look()
            yield
        finally:
            self._noting = True
