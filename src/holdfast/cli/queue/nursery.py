"""The supervisor of ``holdfast queue work``: starts the commands, and ends them in time.

The supervisor is a separate process, so it doesn't stop or die with the worker. While the worker
renews the lease of a delivery, it sends the supervisor new deadlines. If no deadline comes, the
supervisor ends the command: TERM when a third of the lease is left (at most 10 s), KILL before
another worker can get the job. When the worker dies, the supervisor kills all commands.

Both sides write lines of JSON. The worker sends ``start`` (a command), ``until`` (a new deadline)
and ``stop``. The supervisor sends ``pid`` (the command runs) and ``over`` (it has ended).
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import select
import signal
import socket
import tempfile
import time
from base64 import b64decode
from dataclasses import dataclass
from typing import IO, Any, NoReturn

from ...runtime.blocking import boottime
from .. import codes
from ..child import Child, Plan, find_prctl, living
from ..origin import environment
from ..text import say

#: If the lease isn't renewed, the command gets TERM this number of seconds before the lease
#: expires, or a third of the ttl before, if that is less.
EARLY_S = 10.0
#: The command gets KILL when this part of the time from TERM to the end of the lease is left,
#: because the kernel needs some milliseconds to end the processes.
LAST_PART = 0.1
#: Seconds after which a KILL is repeated.
AGAIN_S = 1.0
#: Signals that a terminal or a service manager sends to all processes of a worker. They must not
#: end the supervisor.
IGNORED = ("INT", "TERM", "HUP", "QUIT", "TSTP", "USR1", "USR2")


@dataclass(slots=True)
class Ward:
    """A command that runs. It gets TERM ``early`` seconds before ``deadline``."""

    child: Child
    early: float
    deadline: float
    kill_at: float = float("inf")
    #: True if TERM was sent.
    stopped: bool = False


def nurse(line: socket.socket, options: argparse.Namespace) -> NoReturn:
    """Run the supervisor until the worker has ended."""
    os.setpgid(0, 0)
    code = codes.SOFTWARE
    try:
        Nursery(line, options).serve()
        code = 0
    except BaseException as wrong:
        say(f"the process that starts the commands failed: {type(wrong).__name__}: {wrong}")
    finally:
        os._exit(code)


class Nursery:
    """The supervisor, with the commands that run, by the numbers that the worker gave them."""

    def __init__(self, line: socket.socket, options: argparse.Namespace) -> None:
        self.line = line
        self.options = options
        self.wards: dict[int, Ward] = {}
        self.prctl = find_prctl()
        self.mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
        self.bell, ring = os.pipe()
        os.set_blocking(self.bell, False)
        os.set_blocking(ring, False)
        signal.signal(signal.SIGCHLD, _noted)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        for name in IGNORED:
            number = getattr(signal, "SIG" + name)
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _noted)  # a handler, because commands inherit SIG_IGN

    def serve(self) -> None:
        """Start and end commands until the worker has ended; then kill all commands."""
        poller = select.poll()
        poller.register(self.line, select.POLLIN)
        poller.register(self.bell, select.POLLIN)
        heard = b""
        while True:
            events = {fd for fd, _ in poller.poll(self._step())}
            if self.bell in events:
                os.read(self.bell, 4096)
            if self.line.fileno() in events:
                data = self._read()
                if not data:
                    return self._deserted()
                *orders, heard = (heard + data).split(b"\n")
                for order in orders:
                    self._obey(json.loads(order))
            self._look()

    def _read(self) -> bytes:
        try:
            return self.line.recv(1 << 16)
        except ConnectionError:
            return b""

    def _obey(self, order: dict[str, Any]) -> None:
        number = order["number"]
        if order["do"] == "start":
            self._start(number, order)
        elif ward := self.wards.get(number):
            if order["do"] == "until":
                ward.deadline = order["deadline"]
            else:
                self._stop(ward, order["grace"])

    def _start(self, number: int, order: dict[str, Any]) -> None:
        """Start a command; its stdin is a file with the payload."""
        try:
            child = self._child(order)
        except OSError as wrong:  # no space, descriptor or process: only this command fails
            failure = wrong.errno or errno.EIO
            self._say(number, "over", status=0, failure=failure, left=False)
            return
        child.go()
        if failure := child.failure():
            child.reap()
            self._say(number, "over", status=0, failure=failure, left=False)
            return
        self.wards[number] = Ward(child, min(EARLY_S, order["ttl"] / 3), order["deadline"])
        self._say(number, "pid", pid=child.pid)

    def _child(self, order: dict[str, Any]) -> Child:
        options = self.options
        argv = options.argv
        if options.script:
            argv = [os.environ.get("SHELL") or "/bin/sh", "-c", options.script]
        env = {**environment(), **order["env"]}
        for name in [name for name, value in env.items() if value is None]:
            del env[name]
        with _file() as payload:
            read = _filled(payload, order["payload"])
            return Child(Plan(argv, env, [], self.mask, self.prctl, read))

    # -- in time -----------------------------------------------------------------------------

    def _step(self) -> float | None:
        """Send each TERM and KILL that is due; return the milliseconds until the next one."""
        now, soonest = boottime(), float("inf")
        for ward in self.wards.values():
            if not ward.stopped and ward.deadline - ward.early <= now:
                left = ward.deadline - now - ward.early * LAST_PART
                self._stop(ward, max(0.0, min(self.options.kill_after, left)))
            if now >= ward.kill_at:
                ward.child.signal(signal.SIGKILL)
                ward.kill_at = now + AGAIN_S
            due = ward.kill_at if ward.stopped else ward.deadline - ward.early
            soonest = min(soonest, due)
        return None if soonest == float("inf") else max(0.0, soonest - boottime()) * 1000 + 1

    def _stop(self, ward: Ward, grace: float) -> None:
        """Send TERM, unless it was sent before; set the time of KILL to at most ``grace`` s."""
        if not ward.stopped:
            ward.stopped = True
            ward.child.signal(signal.SIGTERM)
            ward.child.signal(signal.SIGCONT)
        left = max(0.0, ward.deadline - boottime() - ward.early * LAST_PART)
        ward.kill_at = min(ward.kill_at, boottime() + min(grace, left))

    # -- over --------------------------------------------------------------------------------

    def _look(self) -> None:
        """Report the commands that have ended; stop a command that waits for the terminal."""
        for number, ward in list(self.wards.items()):
            happened = ward.child.look()
            if happened in (signal.SIGTTIN, signal.SIGTTOU):
                self._stop(ward, self.options.kill_after)
            if happened >= 0:
                continue
            if ward.stopped:
                ward.child.signal(signal.SIGKILL)  # for the children of the ended command
            del self.wards[number]
            status = ward.child.reap()
            left = not ward.stopped and living(ward.child.pid)
            self._say(number, "over", status=status, failure=0, left=left)

    def _deserted(self) -> None:
        """Kill the commands of a worker that has ended, and wait for their end."""
        for ward in self.wards.values():
            ward.child.signal(signal.SIGKILL)
        while self.wards:
            for number, ward in list(self.wards.items()):
                if ward.child.look() < 0:
                    ward.child.signal(signal.SIGKILL)
                    ward.child.reap()
                    del self.wards[number]
            time.sleep(0.005)

    def _say(self, number: int, what: str, **more: Any) -> None:
        try:
            self.line.sendall(json.dumps({"number": number, "what": what, **more}).encode() + b"\n")
        except OSError:
            return  # the worker has ended; `serve` notices that


def _file() -> IO[bytes]:
    """Return a file for a payload, in memory if possible, so that a full disk doesn't matter."""
    in_memory = getattr(os, "memfd_create", None)
    if in_memory is not None:
        with contextlib.suppress(OSError):  # a sandbox can forbid it
            return open(in_memory("holdfast-payload"), "w+b")
    return tempfile.TemporaryFile()


def _filled(file: IO[bytes], payload: str) -> int:
    file.write(b64decode(payload))
    file.seek(0)
    return file.fileno()


def _noted(number: int, frame: object) -> None:
    """Do nothing: the signal wakes the loop through ``bell``."""
