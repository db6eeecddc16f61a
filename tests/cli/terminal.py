"""A user at a terminal: an interactive shell on a pty, keys to press, and a screen to read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

from tests.cli.world import BOUND_S

PROMPT = "ready> "
CTRL_C, CTRL_Z, CTRL_BACKSLASH = "\x03", "\x1a", "\x1c"


class Terminal:
    """Bash with job control on a pty."""

    def __init__(
        self,
        env: Mapping[str, str],
        cwd: str,
        size: tuple[int, int] = (24, 80),
        instead: Sequence[str] = (),
    ) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            words = instead or ["bash", "--norc", "--noprofile", "--noediting", "-i"]
            os.execvpe(words[0], words, {**env, "PS1": PROMPT, "PS2": "", "HISTFILE": ""})
        self.resize(*size)
        #: The text that was shown after the last match of `expect`.
        self.shown = ""
        if not instead:
            self.expect(PROMPT)

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Press keys; a control key is its byte."""
        os.write(self.fd, keys.encode())

    def enter(self, line: str) -> None:
        """Type a line and press Enter."""
        self.press(line + "\n")

    def expect(self, pattern: str, seconds: float = BOUND_S) -> str:
        """Wait until this pattern is shown; return the shown text up to its end."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.shown)):
            left = end - time.monotonic()
            assert left > 0, f"never shown: {pattern!r}; but this: {self.shown!r}"
            if select.select([self.fd], [], [], min(left, 0.5))[0]:
                try:
                    data = os.read(self.fd, 65536)
                except OSError:
                    data = b""
                assert data, f"the terminal closed; shown: {self.shown!r}"
                self.shown += data.decode("utf-8", "replace").replace("\r", "")
        text, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return text

    def do(self, line: str) -> str:
        """Type a line and wait for the prompt; return the text that was shown in between."""
        self.enter(line)
        self.expect(re.escape(line) + "\n")
        return self.expect(re.escape(PROMPT)).removesuffix(PROMPT)

    def go(self, line: str) -> None:
        """Type a line that runs a command, and wait until the command prints ``go``."""
        self.enter(line)
        self.expect("\ngo\n")

    def prompt(self, status: int | None = None) -> None:
        """Wait for the prompt, and check the exit status of the last command."""
        self.expect(PROMPT)
        assert status in (None, int(self.do("echo $?")))

    def stop(self) -> None:
        """Press Ctrl-Z, which stops the job."""
        self.press(CTRL_Z)
        self.expect(r"Stopped.*\n")
        self.expect(PROMPT)

    def fg(self) -> None:
        """Continue the job in the foreground."""
        self.enter("fg")
        self.expect("fg\nholdfast run.*\n")

    def end(self) -> None:
        """Close the terminal and kill the shell."""
        with contextlib.suppress(OSError):
            os.close(self.fd)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
