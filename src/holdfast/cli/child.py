"""The user's command as a child process: its process group, its start, its terminal.

The command gets a separate process group, so that one signal reaches all its processes. It starts
only after the call of ``go``. Before the call, the process id of the command is sent to the process
that must be able to end the command. If the caller of ``go`` dies before the call, the command
never starts.
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

#: The lowest number of a descriptor that the command inherits, because shell scripts use 3 to 9.
HIGH_FD = 1000
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TTOU_AS_GIVEN = signal.getsignal(signal.SIGTTOU)
Prctl = Callable[[int, int, int, int, int], int]


class Terminal:
    """The controlling terminal, if there is one, and the process group in its foreground.

    The command is in the foreground while it runs, as if the shell had started it. A pipeline is
    different: its other commands, for example a pager, are in our process group and can need the
    terminal. So the command gets the foreground only when it was stopped for using the terminal.
    """

    def __init__(self) -> None:
        # A process in the background must be able to take the terminal and to print messages.
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
        """Return the process group in the foreground of the terminal; 0 if there is none."""
        try:
            return os.tcgetpgrp(self.fd) if self.fd >= 0 else 0
        except OSError:
            return 0  # the terminal was closed

    def give(self, group: int) -> bool:
        """If our group is in the foreground, put the command's group there instead.

        Return True if the command's group is in the foreground now."""
        holder = self.foreground()
        if holder == self.ours and self._set(group):
            self.given = group
            return True
        return bool(holder) and holder == group

    def take(self, crashed: bool = False) -> None:
        """Put our group in the foreground; restore the terminal modes if the command crashed."""
        if self.given:
            self._set(self.ours)
            if crashed and self._modes is not None:
                import termios

                with contextlib.suppress(termios.error):
                    termios.tcsetattr(self.fd, termios.TCSADRAIN, self._modes)  # type: ignore[arg-type]
        self.given = 0

    def remember(self) -> None:
        """Save the terminal modes: a full-screen command that is killed doesn't restore them."""
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
    """The command to execute, and the state in which it starts."""

    argv: list[str]
    env: Mapping[str, str]
    #: Descriptors that the command inherits in addition to stdin, stdout and stderr.
    keep: list[int]
    #: The signals that were blocked when holdfast was started; the command starts with them.
    mask: set[int | signal.Signals]
    prctl: Prctl | None
    #: The descriptor of the command's stdin; -1: that of holdfast.
    stdin: int = -1


class Child:
    """The command before, during and after its run. Its process id is also the id of its group."""

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
        with contextlib.suppress(OSError):  # the child does so too, and can have ended
            os.setpgid(self.pid, self.pid)

    def go(self) -> None:
        """Start the command."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, b"!")
        os.close(self._go)

    def failure(self) -> int:
        """Wait until the command was executed; return 0, or the errno of a failure."""
        text = os.read(self._failure, 16)
        os.close(self._failure)
        return int(text) if text else 0

    def look(self) -> int:
        """Return 0 if the command runs, N>0 if signal N has stopped it, -1 if it has ended.

        An ended command isn't reaped here, so that no other process can get its process id.
        """
        flags = os.WNOHANG | os.WNOWAIT
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | flags)
        if ended is not None:
            self.crashed = ended.si_code != os.CLD_EXITED
            return -1
        try:
            stopped = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)
        except ChildProcessError:
            return self.look()  # the command has ended after the first check
        return stopped.si_status if stopped is not None else 0

    def reap(self) -> int:
        """Wait for the command's end; return its exit status as a shell reports it."""
        return reap(self.pid)

    def signal(self, number: int) -> None:
        """Send a signal to the command's whole process group."""
        signal_group(self.pid, number)


def reap(pid: int) -> int:
    """Wait for the end of a child; return its exit status as a shell reports it."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else codes.SIGNALLED - status


def signal_group(group: int, number: int) -> None:
    """Send a signal to the members of a process group; ignore missing rights and an empty group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def living(group: int) -> bool:
    """Return True if a process group has a member that isn't a zombie."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # the command has changed its user
    states = list(_states(group))
    return any(state not in "ZX" for state in states) if states else True


def bury(*own: int) -> bool:
    """Reap ended children up to one in ``own``; return False if this process has no child."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in own:
                break
            os.waitpid(ended.si_pid, 0)
        return True
    return False


def _states(group: int) -> Iterator[str]:
    """Yield the states of the members of a process group; nothing without a readable /proc."""
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
    """Wait in the child for ``go``, then execute the command; never return; raise on failure.

    Signals get their default actions again, except signals that were ignored when our parent
    started. SIGPIPE and SIGXFSZ always get the default action, because Python ignores them.
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
        os._exit(codes.NOT_FOUND)  # the parent is dead, so no process could end the command
    if plan.stdin >= 0:
        os.dup2(plan.stdin, 0)
    for fd in plan.keep:
        os.set_inheritable(fd, True)
    signal.pthread_sigmask(signal.SIG_SETMASK, plan.mask)
    execute(plan.argv, plan.env)


def execute(argv: list[str], env: Mapping[str, str]) -> None:
    """Execute a command like a shell: search PATH; use /bin/sh for a script without ``#!``."""
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
    """Return ``prctl``, by which a child asks to be killed when its parent dies; None elsewhere."""
    if sys.platform != "linux":
        return None
    import ctypes

    return ctypes.CDLL(None).prctl


def move_up(fd: int) -> int:
    """Move a descriptor to a high number, with close-on-exec; return the new number."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    try:
        high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD)
    except OSError:  # the process's limit for descriptors is lower
        return fd
    os.close(fd)
    return high
