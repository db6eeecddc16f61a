"""``holdfast run``: a command that runs only while its lock is held.

Two processes serve one command, and each watches the other::

    shell ── front ─┬─ command            The shell started the front. The front starts the command,
                    │                     forwards signals, gives the command the terminal, stops
                    └─ holder process     with the command at Ctrl-Z, and returns the status. The
                                          holder process acquires and renews the lock; neither the
                                          terminal nor Ctrl-Z stops this process.

* If the lock is lost or can't be renewed, the holder process ends the command before another client
  can get the lock.
* If the front dies (``kill -9``), the holder process notices the end of their connection. It kills
  the command, and renews until all processes of the command have ended. These have inherited one
  end of a pipe; the holder process watches the other end.
* If the holder process dies, the front notices that and ends the command. If the holder process is
  stopped (SIGSTOP) or hangs, the front ends the command before the lock's deadline.
* If both processes die at the same time, the kernel kills the command (PR_SET_PDEATHSIG).

All three processes and the children of the command have the descriptor of the lock's session. With
the embedded store, the lock is held until the last of these processes has ended. So in all these
cases the next client gets the lock only after the command's end.
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
#: Maximum seconds between TERM and KILL when no process renews the lock.
ORPHAN_GRACE_S = 1.0
#: The holder process should end the command ``early`` seconds before the deadline. If it doesn't,
#: the front sends TERM when the first of these parts of ``early`` is left, and KILL at the second.
SILENT_PART, LAST_PART = 0.5, 0.1


def run(options: argparse.Namespace) -> int:
    """Run the command while its lock is held; exit with its status or with one of ``codes``."""
    # Standard descriptors that were closed at start stay closed for the command. Here they are
    # opened, so that no other descriptor gets their numbers.
    while (spare := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) < 3:
        pass
    os.close(spare)
    # A parent can have blocked signals or ignored SIGCHLD. Undo this: the front needs all signals.
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
    """Run the holder process, and exit with its status."""
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
    """The front: the process that the shell started; see the head of this file."""

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
        #: The time of the KILL, if the front must end the command itself; else infinite.
        self.kill_at = float("inf")
        #: The deadline of the lock; the seconds between the holder process's TERM and the deadline;
        #: and the bytes of an incomplete line from the holder process.
        self.until, self.early, self.rest = float("inf"), 0.0, b""
        #: The descriptors that the command must inherit; see the head of this file.
        self.inherited: list[int] = []
        #: The reading end of a pipe, from which the front reads the number of each signal.
        self.bell, ring = os.pipe()
        os.set_blocking(self.bell, False)
        os.set_blocking(ring, False)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        for name in (*FORWARDED, "CHLD"):
            number = getattr(signal, "SIG" + name)
            # Signals that were ignored at our start (nohup, a shell's background) stay ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _noted)
        #: Look up ``prctl`` now: this costs no time while the holder process acquires.
        self.prctl = find_prctl()
        #: True if the front becomes the parent of the command's orphans, to notice them.
        self.adopts = childless and self.prctl is not None
        if self.prctl is not None and childless:
            self.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def run(self) -> int:
        """Handle events until the command or the wait for its lock has ended; return the status."""
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
        """Read the grant and later deadlines from the holder process; return False if it ended."""
        try:
            data, fds, _, _ = socket.recv_fds(self.line, 65536, 2)
        except ConnectionError:  # the holder process was killed before it had read everything
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
        """Store the newest deadline that the holder process has sent."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for words in (line.split() for line in lines):
            self.until, self.early = float(words[1]), float(words[2])

    def _start(self, fence: str, owner: str, deadline: str) -> None:
        """Start the command; send its process id to the holder process before it runs."""
        options = self.options
        env = {
            **environment(),
            "HOLDFAST_NAME": options.name,
            "HOLDFAST_FENCE": fence,
            "HOLDFAST_OWNER": owner,
            "HOLDFAST_DEADLINE": deadline,
        }
        if not fence:  # this store has no fences, and an inherited fence would be wrong
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
        """Return the status if the holder process ended before the lock was held.

        The holder process has printed the reason, unless it was killed."""
        if self.quit:
            return codes.SIGNALLED + self.quit
        if code > codes.SIGNALLED:
            say(f"the holder process of {self.options.name!r} was killed while it waited")
        return code

    def _tell(self, words: str) -> None:
        try:
            self.line.sendall(words.encode() + b"\n")
        except OSError:
            return  # the holder process has ended; `_hear` notices that

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
                # The second signal kills the holder process: then the store ends its claim.
                os.kill(self.keeper, signal.SIGKILL if self.quit else signal.SIGINT)
                self.quit = number
        elif number == signal.SIGCONT:
            self._resume(child)
        elif number in (signal.SIGUSR1, signal.SIGUSR2):
            os.kill(child.pid, number)  # not to the group: these signals would end some children
        else:
            child.signal(number)

    def _over(self, child: Child) -> bool:
        """Return True if the command has ended.

        End the command if its end is due. If the command has stopped, stop this process too."""
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
        """Stop this process after the command was stopped, so that the shell sees a stopped job.

        If the command was stopped because it needs the terminal, give it the terminal instead."""
        wants_terminal = number in (signal.SIGTTIN, signal.SIGTTOU)
        if wants_terminal and self.terminal.give(child.pid):
            child.signal(signal.SIGCONT)
        elif self.terminal.fd >= 0:
            self.terminal.take()
            self._stop(lambda: os.killpg(self.terminal.ours, signal.SIGTSTP))
            self._resume(child)

    def _stop(self, stop: Callable[[], None]) -> None:
        """Stop by the default action of SIGTSTP.

        If no shell could continue this process, the kernel ignores the signal: it isn't stopped.
        """
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        stop()
        signal.signal(signal.SIGTSTP, handler)

    def _resume(self, child: Child) -> None:
        """If our group is in the foreground, put the command there. Then continue the command."""
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
        """Return the time at which the front ends the command if the holder process doesn't."""
        return self.until - self.early * SILENT_PART if self.kill_at == float("inf") else self.until

    def _news(self) -> bool:
        """Read unread deadlines; return True if one shows that the lock was renewed in time."""
        try:
            self._heard(self.line.recv(1 << 18, socket.MSG_DONTWAIT))
        except OSError:
            return False
        return boottime() < self._patience()

    def _silent(self, child: Child) -> None:
        """End the command while the lock is held: the holder process is stopped or hangs."""
        if self.kill_at == float("inf"):
            say(f"the holder process of {self.options.name!r} hangs: stopping the command")
            child.signal(signal.SIGTERM)
            child.signal(signal.SIGCONT)
            left = self.until - self.early * LAST_PART - boottime()
            self.kill_at = boottime() + max(0.0, min(self.options.kill_after, left))
            os.kill(self.keeper, signal.SIGCONT)  # so that it can release the lock

    def _alone(self, child: Child) -> None:
        """End the command while the lock is held: the holder process died, so the lease ends."""
        say(f"the holder process of {self.options.name!r} was killed: stopping the command")
        child.signal(signal.SIGTERM)
        child.signal(signal.SIGCONT)
        self.kill_at = boottime() + min(self.options.kill_after, ORPHAN_GRACE_S)

    def _end(self, child: Child) -> int:
        """Have the holder process release the lock, then reap the command; return the status."""
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
    """Do nothing: the signal wakes the loop through ``bell``."""
