"""The guarded command as a child process: its group, its start, its terminal.

The command gets a process group of its own, so that all of it can be signalled at once. It
starts only when told to (``go``): at that time whoever must be able to end it knows its number, and
if we die before that, it never starts at all.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from . import codes

#: What the command inherits is moved up here, out of the way of scripts that open 3 to 9.
HIGH_FD = 1000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TTOU_AS_GIVEN = signal.getsignal(signal.SIGTTOU)
Prctl = Callable[[int, int, int, int, int], int]


class Terminal:
    """The controlling terminal, if there is one: whose turn it is to have it.

    The command has it while it runs, as if it had been started alone. In a pipeline it gets it
    only when it asks (it is stopped for reading or writing), because others of the pipeline, a
    pager for example, are in our group and may need it.
    """

    def __init__(self) -> None:
        # From the background we take the terminal back, and may have to say something.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        self.ours = os.getpgrp()
        self.given = 0
        self._modes: object = None
        try:
            self.fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            self.fd = -1
        self.alone = not any(_is_pipe(fd) for fd in (0, 1))

    def foreground(self) -> int:
        """The process group that has the terminal; 0 if there is none."""
        try:
            return os.tcgetpgrp(self.fd) if self.fd >= 0 else 0
        except OSError:
            return 0  # it was hung up

    def give(self, group: int) -> bool:
        """Hand it to the command, if it is ours to give; True if the command has it now."""
        holder = self.foreground()
        if holder == self.ours and self._set(group):
            self.given = group
            return True
        return bool(holder) and holder == group

    def take(self, crashed: bool = False) -> None:
        """Take it back, from a command that had it; in its former modes if that one crashed."""
        if self.given:
            self._set(self.ours)
            if crashed and self._modes is not None:
                import termios

                with contextlib.suppress(termios.error):
                    termios.tcsetattr(self.fd, termios.TCSADRAIN, self._modes)  # type: ignore[arg-type]
        self.given = 0

    def remember(self) -> None:
        """Note the modes, for the case that a command is killed in the middle of a full screen."""
        if self.fd >= 0:
            import termios

            with contextlib.suppress(termios.error):
                self._modes = termios.tcgetattr(self.fd)

    def _set(self, group: int) -> bool:
        try:
            os.tcsetpgrp(self.fd, group)
        except OSError:
            return False
        return True


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


class Plan(NamedTuple):
    """What is to be executed, and what it is to find."""

    argv: list[str]
    env: Mapping[str, str]
    #: Descriptors that it inherits beside those that we were given.
    keep: list[int]
    #: The signals that were blocked when we were started.
    mask: set[int | signal.Signals]
    prctl: Prctl | None
    #: What it reads, if that isn't what we were given.
    stdin: int = -1


class Child:
    """A command that is about to run, runs, or has run. Its group has the number of its process."""

    def __init__(self, plan: Plan) -> None:
        self.crashed = False
        fds: list[int] = []
        try:
            fds += os.pipe()
            fds += os.pipe()
            self.pid = os.fork()
        except OSError:
            for fd in fds:
                os.close(fd)
            raise
        go, self._go, self._failure, report = fds
        if self.pid == 0:
            try:
                os.close(self._go)
                _become(plan, go)
            except OSError as wrong:
                os.write(report, str(wrong.errno or errno.EINVAL).encode())
            finally:
                os._exit(codes.NOT_FOUND)
        os.close(go)
        os.close(report)
        with contextlib.suppress(OSError):  # it may have done so itself, and be gone
            os.setpgid(self.pid, self.pid)

    def go(self) -> None:
        """Let it start."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, b"!")
        os.close(self._go)

    def failure(self) -> int:
        """Why it could not be executed, as an errno; 0 if it could. Waits until that is known."""
        text = os.read(self._failure, 16)
        os.close(self._failure)
        return int(text) if text else 0

    def look(self) -> int:
        """What has happened: 0 nothing, N>0 it was stopped by signal N, -1 it has ended.

        An ended command isn't reaped yet, so that its number can't become somebody else's.
        """
        flags = os.WNOHANG | os.WNOWAIT
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | flags)
        if ended is not None:
            self.crashed = ended.si_code != os.CLD_EXITED
            return -1
        try:
            stopped = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)
        except ChildProcessError:
            return self.look()  # it ended since, and one that has can't be stopped any more
        return stopped.si_status if stopped is not None else 0

    def reap(self) -> int:
        """Its exit status as a shell has it, once it has ended."""
        return reap(self.pid)

    def signal(self, number: int) -> None:
        """Send a signal to all of its group."""
        signal_group(self.pid, number)


def reap(pid: int) -> int:
    """Wait for the end of a child; its exit status as a shell has it."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else codes.SIGNALLED - status


def signal_group(group: int, number: int) -> None:
    """Send a signal to those of a process group that there are, and that we may signal."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def living(group: int) -> bool:
    """Has a process group any member that runs? Those that only wait to be reaped don't."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # somebody else's by now: a command that has changed its user
    states = list(_states(group))
    return any(state not in "ZX" for state in states) if states else True


def bury(*own: int) -> bool:
    """Reap children that have ended, until one of these is met; False if there is no child left."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in own:
                break
            os.waitpid(ended.si_pid, 0)
        return True
    return False


def _states(group: int) -> Iterator[str]:
    """The states of the members of a process group, as far as the kernel tells."""
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            state, _, its_group = file.read().rpartition(b")")[2].split()[:3]
            if int(its_group) == group:
                yield state.decode()


def _become(plan: Plan, go: int) -> None:
    """In the child: wait for the word, then turn into the command. Returns only by raising.

    Signals mean again what they mean by default, but for those that our parent was told to
    ignore; SIGPIPE and SIGXFSZ too, which Python ignores from its start.
    """
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    ours = (s for s in signal.valid_signals() if callable(signal.getsignal(s)))
    for number in (*ours, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGTTOU, TTOU_AS_GIVEN)
    if plan.prctl is not None:
        plan.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if not os.read(go, 1):
        os._exit(codes.NOT_FOUND)  # our parent is dead: nobody would end us
    if plan.stdin >= 0:
        os.dup2(plan.stdin, 0)
    for fd in plan.keep:
        os.set_inheritable(fd, True)
    signal.pthread_sigmask(signal.SIG_SETMASK, plan.mask)
    execute(plan.argv, plan.env)


def execute(argv: list[str], env: Mapping[str, str]) -> None:
    """Execute as a shell would: along the PATH, and a script without ``#!`` by /bin/sh."""
    name = argv[0]
    folders = os.get_exec_path(env) if name else []
    paths = [name] if "/" in name else [f"{folder or '.'}/{name}" for folder in folders]
    reason = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    for path in paths:
        try:
            os.execve(path, argv, env)  # noqa: S606 - the user's command is what this is for
        except OSError as wrong:
            if wrong.errno == errno.ENOEXEC:
                os.execve("/bin/sh", ["sh", path, *argv[1:]], env)  # noqa: S606
            if wrong.errno not in (errno.ENOENT, errno.ENOTDIR):
                reason = wrong
    raise reason


def find_prctl() -> Prctl | None:
    """The call by which a child asks the kernel to die with its parent; None if there is none."""
    if sys.platform != "linux":
        return None
    import ctypes

    return ctypes.CDLL(None).prctl


def move_up(fd: int) -> int:
    """The descriptor under a high number, closed on exec."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    try:
        high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD)
    except OSError:  # the process may not have so many
        return fd
    os.close(fd)
    return high
