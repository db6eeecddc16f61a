"""``holdfast run``: a command that runs only while its lock is held.

Two processes serve one command, and each watches the other::

    shell ── front ─┬─ command            the front is the process of the shell's job: it starts
                    │                     the command, forwards signals, lends it the terminal,
                    └─ holder process     stops with it at Ctrl-Z, and returns its status. The
                                          holder process acquires and renews; no terminal and no
                                          Ctrl-Z ever stops it.

* The lock is lost, or can't be renewed: the holder process ends the command, before another client
  can get the lock.
* The front dies (``kill -9``): the holder process sees the end of their connection, kills the
  command, and renews until all processes that it started have ended. They have inherited one end
  of a pipe, and the holder process watches the other end.
* The holder process dies: the front sees that and ends the command. The holder process is stopped
  (SIGSTOP) or hangs: the front knows the deadline of the lock, and ends the command before that.
* Both die at once: the kernel kills the command (PR_SET_PDEATHSIG).

All three processes, and the children of the command, have the descriptor of the lock's session. So
with the embedded store the kernel reports the holder as alive until the last of them has ended: in
all these cases the lock passes on only after the command's end.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import NoReturn

from ..runtime.blocking import boottime
from . import codes
from .child import (
    PR_SET_CHILD_SUBREAPER,
    Child,
    Plan,
    Terminal,
    bury,
    find_prctl,
    living,
    move_up,
    reap,
)
from .origin import environment
from .text import say

#: Signals that are forwarded to the command.
FORWARDED = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "TSTP", "CONT")
#: Signals that end the wait for the lock.
QUITTING = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
#: Between TERM and KILL when no process renews the lock, seconds.
ORPHAN_GRACE_S = 1.0
#: The front ends the command, by TERM and then KILL, when these parts are left of the time in which
#: the holder process would have done so.
SILENT_PART, LAST_PART = 0.5, 0.1


def run(options: argparse.Namespace) -> int:
    """Run the command under its lock, and exit with its status, or with one of ``codes``."""
    # Standard descriptors that were closed at start stay closed for the command, but no other
    # descriptor may get their numbers.
    while (spare := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) < 3:
        pass
    os.close(spare)
    # A parent that is not a shell can have changed these, and we depend on them.
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    line, far = socket.socketpair()
    front = os.getpid()
    childless = not bury()  # a shell can have started processes before `exec holdfast`
    keeper = os.fork()
    if keeper == 0:
        line.close()
        _keep(options, far, front)
    far.close()
    # The interpreter's own exit would take another 8 ms.
    os._exit(Front(options, line, keeper, mask, childless).run())


def _keep(options: argparse.Namespace, line: socket.socket, front: int) -> NoReturn:
    """Run the holder process."""
    code = codes.SOFTWARE
    try:
        from .keep import keep

        code = keep(options, line, front)
    except KeyboardInterrupt:
        code = codes.SIGNALLED + signal.SIGINT
    except Exception as failure:
        code = codes.explain(failure)
    finally:
        os._exit(code)


class Front:
    """The process of the shell's job."""

    def __init__(
        self,
        options: argparse.Namespace,
        line: socket.socket,
        keeper: int,
        mask: set[int | signal.Signals],
        childless: bool,
    ) -> None:
        self.options = options
        self.mask = mask
        self.line = line
        self.keeper = keeper
        self.terminal = Terminal()
        self.child: Child | None = None
        #: The signal that ended the wait for the lock.
        self.quit = 0
        #: When a command without a holder process gets its KILL.
        self.kill_at = float("inf")
        #: The deadline of the lock; the seconds before it at which the holder process ends the
        #: command; and the unread rest of a line.
        self.until, self.early, self.rest = float("inf"), 0.0, b""
        #: The descriptors that the command must have open, see the head of this file.
        self.inherited: list[int] = []
        self.bell, ring = os.pipe()
        os.set_blocking(self.bell, False)
        os.set_blocking(ring, False)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        for name in (*FORWARDED, "CHLD"):
            number = getattr(signal, "SIG" + name)
            # Signals that were ignored at our start (nohup, a shell's background) stay ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _noted)
        #: Looked up now, because there is time while the holder process acquires.
        self.prctl = find_prctl()
        #: We become the parent of the command's orphans, so that we notice them.
        self.adopts = childless and self.prctl is not None
        if self.prctl is not None and childless:
            self.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def run(self) -> int:
        """Serve until the command, or the wait for its lock, has ended; return the exit status."""
        poller = select.poll()
        poller.register(self.bell, select.POLLIN)
        poller.register(self.line, select.POLLIN)
        while True:
            events = {fd for fd, _ in poller.poll(self._pause_ms())}
            if self.line.fileno() in events and not self._hear():
                if self.child is None:
                    return self._never_ran(reap(self.keeper))
                poller.unregister(self.line)
                self._alone(self.child)
            if self.bell in events:
                for number in self._rung():
                    self._handle(number)
            if self.child is not None and self._over(self.child):
                return self._end(self.child)

    # -- waiting -----------------------------------------------------------------------------

    def _hear(self) -> bool:
        """Read what the holder process sends: the grant, then deadlines; False: it has ended."""
        try:
            data, fds, _, _ = socket.recv_fds(self.line, 65536, 2)
        except ConnectionError:  # it was killed before it had read everything
            return False
        if not data:
            return False
        if self.child is not None or (self.quit and self.inherited):
            self._heard(data)
            return True
        data, _, more = data.partition(b"\n")
        self.inherited = [move_up(fd) for fd in fds]
        if self.quit:
            self._tell("done")
        else:
            fence, owner, deadline = data.decode().split(",")
            self._start(fence, bytes.fromhex(owner).decode("utf-8", "surrogateescape"), deadline)
        self._heard(more)
        return True

    def _heard(self, data: bytes) -> None:
        """Store the new deadline: the holder process has renewed the lock."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for words in (line.split() for line in lines):
            self.until, self.early = float(words[1]), float(words[2])

    def _start(self, fence: str, owner: str, deadline: str) -> None:
        """Start the command, after its process id was sent to the holder process."""
        options = self.options
        env = {
            **environment(),
            "HOLDFAST_NAME": options.name,
            "HOLDFAST_FENCE": fence,
            "HOLDFAST_OWNER": owner,
            "HOLDFAST_DEADLINE": deadline,
        }
        if not fence:  # this store gives none, and an inherited one would be wrong
            del env["HOLDFAST_FENCE"]
        argv = options.argv
        if options.script:
            argv = [os.environ.get("SHELL") or "/bin/sh", "-c", options.script]
        self.terminal.remember()
        self.child = child = Child(Plan(argv, env, self.inherited, self.mask, self.prctl))
        if self.terminal.alone:
            self.terminal.give(child.pid)
        self._tell(f"pid {child.pid}")
        child.go()
        self.failure = child.failure()
        os.close(self.inherited[0])

    def _never_ran(self, code: int) -> int:
        """The holder process ended before the lock was held, and printed the reason if it could."""
        if self.quit:
            return codes.SIGNALLED + self.quit
        if code > codes.SIGNALLED:
            say(f"the holder process of {self.options.name!r} was killed while it waited")
        return code

    def _tell(self, words: str) -> None:
        try:
            self.line.sendall(words.encode() + b"\n")
        except OSError:
            return  # it has ended, which `_hear` notices

    # -- signals -----------------------------------------------------------------------------

    def _rung(self) -> list[int]:
        try:
            return sorted(set(os.read(self.bell, 4096)))
        except BlockingIOError:
            return []

    def _handle(self, number: int) -> None:
        """Forward a signal to the command, or end the wait for the lock."""
        child = self.child
        if number == signal.SIGCHLD:
            if self.adopts and child is not None:
                bury(self.keeper, child.pid)
            return
        if child is None:
            if number == signal.SIGTSTP:
                self._stop(lambda: os.kill(os.getpid(), signal.SIGTSTP))
            elif number in {getattr(signal, "SIG" + name) for name in QUITTING}:
                # The second one kills the holder process: then the kernel withdraws its request.
                os.kill(self.keeper, signal.SIGKILL if self.quit else signal.SIGINT)
                self.quit = number
        elif number == signal.SIGCONT:
            self._resume(child)
        elif number in (signal.SIGUSR1, signal.SIGUSR2):
            os.kill(child.pid, number)  # its children may not expect them
        else:
            child.signal(number)

    def _over(self, child: Child) -> bool:
        """End the command if that is due; return whether it has ended."""
        if boottime() >= self.kill_at:
            child.signal(signal.SIGKILL)
            self.kill_at = boottime() + ORPHAN_GRACE_S
        if boottime() >= self._patience() and not self._news():
            self._silent(child)
        happened = child.look()
        if happened > 0:
            self._stopped(child, happened)
        return happened < 0

    def _stopped(self, child: Child, number: int) -> None:
        """Stop with a command that was stopped, so that the shell sees the whole job stopped."""
        wants_terminal = number in (signal.SIGTTIN, signal.SIGTTOU)
        if wants_terminal and self.terminal.give(child.pid):
            child.signal(signal.SIGCONT)
        elif self.terminal.fd >= 0:
            self.terminal.take()
            self._stop(lambda: os.killpg(self.terminal.ours, signal.SIGTSTP))
            self._resume(child)

    def _stop(self, stop: Callable[[], None]) -> None:
        """Stop by the default action of SIGTSTP.

        Where no shell can continue us, the kernel ignores the signal, and we continue immediately.
        """
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        stop()
        signal.signal(signal.SIGTSTP, handler)

    def _resume(self, child: Child) -> None:
        """Continue the command; in the foreground, if we are there."""
        if self.terminal.alone:
            self.terminal.give(child.pid)
        child.signal(signal.SIGCONT)

    # -- the end -----------------------------------------------------------------------------

    def _pause_ms(self) -> float | None:
        if self.kill_at < float("inf"):
            return max(0.0, (self.kill_at - boottime()) * 1000)
        if self.child is None or self.until == float("inf"):
            return None
        return max(0.0, (self._patience() - boottime()) * 1000) + 1

    def _patience(self) -> float:
        """Return when we end the command ourselves: the holder process would have begun earlier."""
        return self.until - self.early * SILENT_PART if self.kill_at == float("inf") else self.until

    def _news(self) -> bool:
        """Return whether the lock was renewed while we were stopped and didn't read."""
        try:
            self._heard(self.line.recv(1 << 18, socket.MSG_DONTWAIT))
        except OSError:
            return False
        return boottime() < self._patience()

    def _silent(self, child: Child) -> None:
        """The holder process is stopped or hangs: end the command while the lock is held."""
        if self.kill_at == float("inf"):
            say(f"the holder process of {self.options.name!r} hangs: stopping the command")
            child.signal(signal.SIGTERM)
            child.signal(signal.SIGCONT)
            left = self.until - self.early * LAST_PART - boottime()
            self.kill_at = boottime() + max(0.0, min(self.options.kill_after, left))
            os.kill(self.keeper, signal.SIGCONT)  # or no process would release the lock

    def _alone(self, child: Child) -> None:
        """The holder process died, nothing renews the lock: end the command while it is held."""
        say(f"the holder process of {self.options.name!r} was killed: stopping the command")
        child.signal(signal.SIGTERM)
        child.signal(signal.SIGCONT)
        self.kill_at = boottime() + min(self.options.kill_after, ORPHAN_GRACE_S)

    def _end(self, child: Child) -> int:
        """The command has ended: have the lock released, and only then reap the command."""
        self.terminal.take(child.crashed)
        orphaned = self.kill_at < float("inf")
        if orphaned:
            child.signal(signal.SIGKILL)
        self._tell("done")
        kept = reap(self.keeper)
        status = child.reap()
        if orphaned or kept == codes.LOST:
            return codes.LOST
        if self.failure:
            return self._not_executed()
        if not self.options.quiet and ((self.adopts and bury()) or living(child.pid)):
            say(
                f"the command left processes in the background; they continue without "
                f"{self.options.name!r}, which is free now"
            )
        return status

    def _not_executed(self) -> int:
        import errno

        command = self.options.argv[0] if self.options.argv else "$SHELL"
        say(f"cannot run {command!r}: {os.strerror(self.failure)}")
        missing = self.failure in (errno.ENOENT, errno.ENOTDIR)
        return codes.NOT_FOUND if missing else codes.NOT_EXECUTABLE


def _noted(number: int, frame: object) -> None:
    """Note a signal; the loop is woken by ``bell``."""
