"""Processes as the subjects of faults: a test starts, stops, continues, forks and kills them.

A subject runs one function of a module in a separate process. Test and subject exchange messages,
so that a fault comes at a chosen moment: after the subject has reported its progress::

    def holder(stage, url):                      # in the module mytests.workers
        with Client(url).lock("x") as hold:
            stage.say(hold.fence)                # now it holds
            stage.hear()                         # until the test sends a message

    with Subject("mytests.workers:holder", url) as one:
        fence = one.hear()
        one.kill()                               # kill -9, in the middle of its body

At the end of the ``with`` block the process is killed and reaped, even if the test failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Self

from ...runtime.blocking import boottime
from .. import starting
from ..surroundings import surroundings
from .pipe import readable

#: Default limit of a wait, in seconds.
SOON_S = 20.0
_STAGE = "holdfast.testing.faults.stage"
_AFTER = (
    "import importlib, runpy, sys; importlib.import_module(sys.argv.pop(1)); "
    f"runpy.run_module({_STAGE!r}, run_name='__main__', alter_sys=True)"
)


class SubjectGone(Exception):
    """The subject has ended instead of sending or receiving a message."""


class Subject:
    """A process that runs ``function`` ("module:name") with a stage and these arguments.

    A coroutine function is run by ``asyncio.run``. The arguments are any JSON values. ``first``
    names a module that the process imports before anything else. ``environment`` adds to the
    environment of this process. The subject finds modules on the path of this process. If the
    function raises, the subject prints the exception to standard error, and ``ended`` is 1.
    """

    def __init__(
        self,
        function: str,
        *args: Any,
        first: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        run = ["-c", _AFTER, first] if first else ["-m", _STAGE]
        path = os.pathsep.join(place or os.getcwd() for place in sys.path)
        self.process = starting.popen(
            [sys.executable, *run, function, json.dumps(args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**surroundings(PYTHONPATH=path), **(environment or {})},
        )
        self.pid = self.process.pid
        self._heard = b""

    # -- messages --------------------------------------------------------------------------

    def say(self, value: Any = None) -> None:
        """Send the subject one value; ``SubjectGone`` if the subject has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(value).encode() + b"\n")
        except BrokenPipeError:
            raise SubjectGone(f"process {self.pid} has ended") from None

    def hear(self, within: float = SOON_S) -> Any:
        """Return the next value that the subject sends within ``within`` seconds.

        ``TimeoutError`` if the subject sends nothing, ``SubjectGone`` if it has ended.
        """
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        end = boottime() + within
        while b"\n" not in self._heard:
            if not readable(pipe, end - boottime()):
                raise TimeoutError(f"no message from process {self.pid} for {within:g} s")
            piece = os.read(pipe, 1 << 16)
            if not piece:
                raise SubjectGone(f"process {self.pid} has ended")
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def rest(self, within: float = SOON_S) -> list[Any]:
        """Return all values that the subject still sends until it ends."""
        found = []
        with contextlib.suppress(SubjectGone):
            while True:
                found.append(self.hear(within))
        return found

    # -- faults ----------------------------------------------------------------------------

    def signal(self, number: int) -> None:
        """Send the subject a signal, if it hasn't ended."""
        self.process.send_signal(number)

    def interrupt(self) -> None:
        """Send SIGINT, as Ctrl-C does."""
        self.signal(signal.SIGINT)

    def stop(self) -> None:
        """Stop the subject (SIGSTOP); return when all its threads have stopped."""
        self.signal(signal.SIGSTOP)
        self.stopped()

    def stopped(self, within: float = SOON_S) -> None:
        """Wait until any process has stopped the subject; ``SubjectGone`` if the subject ended."""
        end = boottime() + within
        while not _stopped(self.pid):
            if self.ended is not None:
                raise SubjectGone(f"process {self.pid} has ended with {self.ended}")
            if boottime() > end:
                raise TimeoutError(f"process {self.pid} was not stopped for {within:g} s")
            time.sleep(0.0005)

    def go_on(self) -> None:
        """Continue the subject (SIGCONT)."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the subject by SIGKILL, even if it is stopped, and reap it."""
        self.process.kill()
        self.process.wait()

    # -- the end ---------------------------------------------------------------------------

    @property
    def ended(self) -> int | None:
        """The exit status, or minus the signal that ended the subject; None while it runs."""
        return self.process.poll()

    def end(self, within: float = SOON_S) -> int:
        """Close the subject's standard input, wait for its end, and return its exit status.

        ``TimeoutError`` if the subject doesn't end.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"process {self.pid} did not end within {within:g} s") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Fork:
    """The child of a fork of this process; it runs ``work`` and then ends.

    The child ends without clean-up, as a worker of ``multiprocessing`` does. At the end of the
    ``with`` block it is killed and reaped.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self._ear, mouth = os.pipe()
        self._over = False
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._ear)
            _live(work, mouth)
        os.close(mouth)

    def result(self, within: float = SOON_S) -> Any:
        """Return the result of ``work``, which must fit into JSON.

        ``RuntimeError`` with the traceback if ``work`` raised, ``SubjectGone`` if the child was
        killed, ``TimeoutError`` after ``within`` seconds.
        """
        said = b""
        end = boottime() + within
        while True:
            if not readable(self._ear, end - boottime()):
                raise TimeoutError(f"the child {self.pid} did not end within {within:g} s")
            piece = os.read(self._ear, 1 << 16)
            if not piece:
                break
            said += piece
        self._reap()
        if not said:
            raise SubjectGone(f"the child {self.pid} ended without a word")
        right, value = json.loads(said)
        if not right:
            raise RuntimeError(f"in the child {self.pid}:\n{value}")
        return value

    def kill(self) -> None:
        """End the child by SIGKILL and reap it."""
        if not self._over:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()

    def _reap(self) -> None:
        if not self._over:
            os.waitpid(self.pid, 0)
            self._over = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        os.close(self._ear)


def _live(work: Callable[[], Any], mouth: int) -> None:
    """Run ``work`` in the child of a fork, send its result, and exit."""
    status = 1
    try:
        os.write(mouth, json.dumps([True, work()]).encode())
        status = 0
    except BaseException:
        os.write(mouth, json.dumps([False, traceback.format_exc()]).encode())
    finally:
        os._exit(status)


def _stopped(pid: int) -> bool:
    """Return True if /proc shows each thread of this process as stopped."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                if file.read().rpartition(b")")[2].split()[0] not in b"Tt":
                    return False
    except (OSError, IndexError):
        return False
    return True
