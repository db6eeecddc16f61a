"""Run a process and kill it at one of its system calls, which ptrace(2) reports."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Mapping, Sequence

#: Requests and options of ptrace(2), as Linux numbers them.
TRACEME, SYSCALL, SETOPTIONS = 0, 24, 0x4200
GOOD, EXITKILL = 1, 0x100000
#: A stop at a system call differs from a stop at a signal by this bit.
AT_CALL = signal.SIGTRAP | 0x80
#: The process sends itself this signal at the start and at the end of the part whose calls count.
#: By default the signal does nothing.
MARK = signal.SIGURG

_ptrace = ctypes.CDLL(None, use_errno=True).ptrace
_ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def run(words: Sequence[str], env: Mapping[str, str], stdout: int, at: int) -> int:
    """Run the program, and kill it when it enters its call number ``at`` after the first mark.
    Return the number of calls after the first mark, until the second mark, its end, or the kill."""
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(stdout, 1)
            _ptrace(TRACEME, 0, None, None)
            os.execve(words[0], list(words), dict(env))
        finally:
            os._exit(127)
    calls, marks, inside, ready = 0, 0, False, False
    while True:
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            return calls
        sent = os.WSTOPSIG(status)
        if not ready:  # it has just become the program
            _ptrace(SETOPTIONS, pid, None, GOOD | EXITKILL)
            ready, sent = True, 0
        elif sent == AT_CALL:
            sent, inside = 0, not inside
            if inside and marks == 1:
                calls += 1
                if calls == at:
                    os.kill(pid, signal.SIGKILL)
        else:
            marks += sent == MARK
        _ptrace(SYSCALL, pid, None, sent)
