"""A forked process that runs one function, and reports its progress through a pipe."""

from __future__ import annotations

import os
import select
import signal
import traceback
from collections.abc import Callable
from typing import Self

PATIENCE_S = 20.0


class Child:
    """A child process; it is killed and reaped at the end of the ``with`` block."""

    def __init__(self, work: Callable[[Child], object]) -> None:
        self._ear, self._mouth = os.pipe()
        self._heard = b""
        self._status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._ear)
            self._live(work)

    def _live(self, work: Callable[[Child], object]) -> None:
        try:
            work(self)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    # -- in the child ----------------------------------------------------------------------

    def say(self, words: object) -> None:
        """Send one line to the parent."""
        rest = f"{words}\n".encode()
        while rest:  # a signal cuts a long line short
            rest = rest[os.write(self._mouth, rest) :]

    # -- in the parent ---------------------------------------------------------------------

    def hear(self) -> str:
        """The next line, within a time limit; empty if the child has ended."""
        while b"\n" not in self._heard:
            ready, _, _ = select.select([self._ear], [], [], PATIENCE_S)
            assert ready, f"the child {self.pid} sent nothing for {PATIENCE_S} s"
            piece = os.read(self._ear, 65536)
            if not piece:
                return ""
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def rest(self) -> list[str]:
        """All remaining lines that the child sent before it ended."""
        lines = []
        while line := self.hear():
            lines.append(line)
        return lines

    def stopped(self) -> None:
        """Wait until the child has stopped itself."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it didn't stop, but ended: {status}"

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def end(self) -> int:
        """Wait for the child's end; return the exit code, or the negative number of the signal."""
        if self._status is None:
            _, status = os.waitpid(self.pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def __enter__(self) -> Self:
        os.close(self._mouth)
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is None:
            self.send(signal.SIGKILL)
            self.end()
        os.close(self._ear)
