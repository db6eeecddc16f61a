"""The holder process of ``holdfast run``: acquires, renews, and ends the command in time.

The process has a separate process group, so no signal of the terminal reaches it. It renews the
lock even while the command is stopped with Ctrl-Z. Other clients see its process id in the owner.
Signals that are sent to this id are forwarded to the front (see ``run``).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import select
import signal
import socket
import threading
import time

from ..core.door import LATE
from ..errors import HoldfastError, StoreUnavailable
from ..runtime.blocking import boottime
from ..sync import Client, Hold
from . import codes, origin
from .child import living, signal_group
from .text import say, span, visible
from .waiting import Waiting

#: If the lock can't be renewed, the command gets TERM this number of seconds before the lease
#: expires, or a third of the ttl before, if that is less.
EARLY_S = 10.0
#: The command gets KILL when this part of the time from TERM to the end of the lease is left,
#: because the kernel needs some milliseconds to end the processes.
LAST_PART = 0.1
#: Maximum seconds between TERM and KILL when the lock is already lost.
LOST_GRACE_S = 1.0
#: Maximum seconds until a broken lock is noticed, even with a long lease.
LOOK_S = 5.0
#: Seconds from a KILL to the first check that the processes have ended.
FIRST_LOOK_S = 0.002
#: A new deadline is sent to the front only if it is later by more than this number of seconds.
TOLD_S = 0.02
#: Signals that the holder process forwards to the front.
PASSED_ON = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2")


def keep(options: argparse.Namespace, line: socket.socket, front: int) -> int:
    """Acquire, notify the front, hold until the front reports the command's end; return a status.

    0: the lock was held until the end, and released. 76: the lock was lost. Other statuses: the
    lock was never held.
    """
    _leave_the_terminal()
    default = visible(os.path.basename(options.argv[0])) if options.argv else "sh"
    client = Client(options.url, label=options.label or default or "run")
    origin.tell(options, client.url)
    terms = {"min_hold": options.min_hold} if options.min_hold else {}
    waiting = Waiting(client, options, [options.name], line, **terms)
    try:
        holds = waiting.acquire()
        if not holds:
            if not options.quiet:
                say(waiting.busy())
            return int(options.busy)
        gc.enable()  # this process can run for days
        holder = HolderProcess(holds[0], line, options)
        holder.pass_signals(front)
        _tell(holder, client)
        return holder.serve()
    finally:
        client.close()


def _leave_the_terminal() -> None:
    """Enter a new process group, and close stdin and stdout, which belong to the command."""
    os.setpgid(0, 0)
    for number in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(null, 1)


def _tell(holder: HolderProcess, client: Client) -> None:
    """Send the front the grant, and the descriptors that the command must inherit."""
    hold = holder.hold
    session = getattr(client._ctx.store, "session_fd", None)
    fds = [holder.tree] if session is None else [holder.tree, session()]
    deadline = min(boottime() + hold.remaining(), holder.end)
    fence = hold.fence if client.supports("fences") else ""
    # Encode the owner: its label can contain spaces and line ends
    owner = hold.owner.encode("utf-8", "surrogateescape").hex()
    socket.send_fds(holder.line, [f"{fence},{owner},{deadline:.3f}\n".encode()], fds)
    os.close(holder.tree)


class HolderProcess:
    """Watches the held lock, and ends the command in time. The client renews the lock."""

    def __init__(self, hold: Hold, line: socket.socket, options: argparse.Namespace) -> None:
        self.hold = hold
        self.line = line
        self.options = options
        self.end = boottime() + options.max_hold if options.max_hold else float("inf")
        #: The command's process group; 0 until the front has sent it.
        self.group = 0
        #: The reason why the command must end; empty if the command may run.
        self.reason = ""
        self.kill_at = float("inf")
        self.warned = False
        self.early = min(EARLY_S, hold.ttl / 3)
        #: A pipe. The command and its children inherit the writing end, ``tree``; ``leaves``
        #: reports a hang-up when the last of these processes has ended.
        self.leaves, self.tree = os.pipe()
        #: The reading end of a pipe; a byte arrives when the lock is lost.
        self.bell, ring = os.pipe()
        hold.on_lost(lambda *_: os.write(ring, b"!"))
        self.over = False
        #: The deadline that was sent to the front.
        self.told = 0.0
        #: Serializes requests of two threads about the hold: an early renewal, and the release.
        self.talking = threading.Lock()
        if hold.ttl / 3 > 2 * LOOK_S:
            threading.Thread(target=self._look, daemon=True).start()

    def pass_signals(self, front: int) -> None:
        """Forward each signal to the front, after the command has started."""

        def handler(number: int, frame: object) -> None:
            if self.group and os.getppid() == front:
                os.kill(front, number)

        for name in PASSED_ON:
            signal.signal(getattr(signal, "SIG" + name), handler)

    def _look(self) -> None:
        """Renew a long lease more often, to notice early if it was broken; runs in a thread."""
        while not self.over:
            time.sleep(LOOK_S)
            with self.talking, contextlib.suppress(HoldfastError):
                if not self.over:
                    self.hold.extend()

    def serve(self) -> int:
        """Hold the lock until the front reports the command's end, or dies; return the status."""
        poller = select.poll()
        poller.register(self.line, select.POLLIN)
        poller.register(self.bell, select.POLLIN)
        heard = b""
        while True:
            events = {fd for fd, _ in poller.poll(self._step() * 1000)}
            if self.bell in events:
                os.read(self.bell, 64)
            if self.line.fileno() not in events:
                continue
            data = self._read()
            if not data:
                return self._deserted()
            *words, heard = (heard + data).split(b"\n")
            for word in words:
                if word == b"done":
                    return self._over()
                self.group = int(word.removeprefix(b"pid "))

    def _read(self) -> bytes:
        try:
            return self.line.recv(4096)
        except ConnectionError:
            return b""

    # -- in time -----------------------------------------------------------------------------

    def _step(self) -> float:
        """Send the front a new deadline; stop the command if that is due.

        Return the maximum seconds until the next call."""
        now = boottime()
        until = now + self.hold.remaining()
        if until > self.told + TOLD_S and not self.reason and self.hold.lost is None:
            self.told = until
            self._tell_front(self.early)
        if self.reason:
            if self.group and now >= self.kill_at:
                signal_group(self.group, signal.SIGKILL)
                self.kill_at = now + LOST_GRACE_S
            return max(0.0, self.kill_at - now) if self.group else LOST_GRACE_S
        longest = self.options.max_hold or 0.0
        left = self.hold.remaining() - self.early
        capped = self.end - now - min(EARLY_S, longest / 3)
        pause = min(left, capped)
        if pause > 0:
            return min(pause, LOOK_S, self.hold.ttl / 6, self._overdue())
        if self.hold.lost is not None:
            self._stop(f"lost {self.options.name!r}: {self.hold.lost}", LOST_GRACE_S)
        elif capped <= 0:
            self._stop(f"{self.options.name!r} was held for --max-hold", self.end - now)
        else:
            self._stop(f"can't renew {self.options.name!r}", self.hold.remaining())
        return 0.0

    def _tell_front(self, early: float) -> None:
        with contextlib.suppress(OSError):  # the front has ended; `serve` notices that
            # A stopped front doesn't read; this process must not wait for it
            words = f"until {self.told:.3f} {early:.3f}\n"
            self.line.send(words.encode(), socket.MSG_DONTWAIT)

    def _overdue(self) -> float:
        """Print a warning, once, if less than half of the lease is left.

        Return the seconds until the next check."""
        overdue = self.hold.remaining() - self.hold.ttl / 2
        if overdue > 0 or self.warned:
            return overdue if overdue > 0 else LOOK_S
        self.warned = True
        left = span(self.hold.remaining() - self.early)
        say(f"renewing {self.options.name!r} fails; in {left} the command is stopped")
        return LOOK_S

    def _stop(self, reason: str, left: float) -> None:
        """Send TERM now; set the time of KILL, before another client can acquire the lock."""
        self.reason = reason
        self._tell_front(self.early * LAST_PART)  # so that the front acts only if no KILL comes
        last = 0.0 if self.hold.lost is not None else self.early * LAST_PART
        grace = max(0.0, min(self.options.kill_after, left - last))
        self.kill_at = boottime() + grace
        say(f"{reason}; stopping the command")
        if self.group:
            signal_group(self.group, signal.SIGTERM)
            signal_group(self.group, signal.SIGCONT)

    # -- over --------------------------------------------------------------------------------

    def _over(self) -> int:
        """Release the lock after the end of the command; return the exit status.

        If the lock was held until here, the status is 0, even if the store doesn't answer, or if
        the lease ends during the release.
        """
        held = self.hold.lost is None
        if self.reason and self.group:
            signal_group(self.group, signal.SIGKILL)  # the command's children have no lock either
        try:
            kept = self._release()
        except StoreUnavailable as failure:
            say(f"the command has ended, but its lock could not be released: {failure}")
            return codes.LOST if self.reason else 0
        late = held and self.hold.lost in LATE
        if self.reason or kept or late:
            return codes.LOST if self.reason else 0
        say(f"lost {self.options.name!r} ({self.hold.lost}) before the command had ended")
        return codes.LOST

    def _deserted(self) -> int:
        """The front was killed: kill the command; hold the lock until the command's processes end.

        Processes that have left the command's group aren't killed. The lock stays held until they
        have ended too, unless they have closed the descriptor of the pipe ``tree``.
        """
        if self.group:
            say(f"holdfast run was killed; killing the command that held {self.options.name!r}")
        poller = select.poll()
        poller.register(self.leaves, 0)  # only a hang-up: no process has the other end
        pause = FIRST_LOOK_S
        while self.group and self.hold.lost is None:
            signal_group(self.group, signal.SIGKILL)
            if poller.poll(pause * 1000) and not living(self.group):
                break
            pause = min(pause * 2, LOST_GRACE_S)
        self._release()
        return codes.LOST

    def _release(self) -> bool:
        self.over = True
        with self.talking:
            return self.hold.release()
