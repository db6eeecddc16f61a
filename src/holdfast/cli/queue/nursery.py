"""The supervisor of ``holdfast queue work``: starts the commands, and ends them in time.

It is a separate process with one thread, so it doesn't stop or die with the worker. The worker
sends it the new deadline of a delivery after each renewal of the lease. Without a later deadline
it ends the command: TERM when a third of the lease is left (at most 10 s), KILL before another
worker can get the job. When the worker dies, it kills all commands.

Both sides write lines of JSON. The worker: ``start``, ``until``, ``stop``. The supervisor: ``pid``,
``over``.
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

#: The command gets TERM this many seconds before its lease expires, or a third of the ttl before
#: that if this is less.
EARLY_S = 10.0
#: ...and KILL when this part of that time is left: the kernel needs some milliseconds for it.
LAST_PART = 0.1
#: A KILL is sent again after this time, seconds.
AGAIN_S = 1.0
#: Signals that a worker's terminal and its service manager send to all its processes.
IGNORED = ("INT", "TERM", "HUP", "QUIT", "TSTP", "USR1", "USR2")


@dataclass(slots=True)
class Ward:
    """A command that runs."""

    child: Child
    early: float
    deadline: float
    kill_at: float = float("inf")
    #: TERM was sent to it.
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
    """The commands that run, by the numbers that the worker gave them."""

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
                signal.signal(number, _noted)  # so that a command gets its default again

    def serve(self) -> None:
        """Serve until the worker has ended, then end its commands."""
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
        """Start a command, with its payload as the file on its stdin."""
        try:
            child = self._child(order)
        except OSError as wrong:  # no space, descriptor or process: only this one fails
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
        """Do what is due; return the milliseconds until the next step."""
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
        """Send TERM now, once; KILL after the grace, or earlier if that was planned."""
        if not ward.stopped:
            ward.stopped = True
            ward.child.signal(signal.SIGTERM)
            ward.child.signal(signal.SIGCONT)
        left = max(0.0, ward.deadline - boottime() - ward.early * LAST_PART)
        ward.kill_at = min(ward.kill_at, boottime() + min(grace, left))

    # -- over --------------------------------------------------------------------------------

    def _look(self) -> None:
        """Report the commands that have ended. A command that needs the terminal is ended."""
        for number, ward in list(self.wards.items()):
            happened = ward.child.look()
            if happened in (signal.SIGTTIN, signal.SIGTTOU):
                self._stop(ward, self.options.kill_after)
            if happened >= 0:
                continue
            if ward.stopped:
                ward.child.signal(signal.SIGKILL)  # its children end with it
            del self.wards[number]
            status = ward.child.reap()
            left = not ward.stopped and living(ward.child.pid)
            self._say(number, "over", status=status, failure=0, left=left)

    def _deserted(self) -> None:
        """The worker has ended: kill its commands, until all have ended."""
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
            return  # it has ended, which `serve` notices


def _file() -> IO[bytes]:
    """Return a file for a payload, in memory where the system can: a full disk stops no work."""
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
    """Note a signal; the loop is woken by ``bell``."""
