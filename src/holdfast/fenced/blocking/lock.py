"""The kernel lock on a sidecar: one writer, or any number of readers.

Each call opens the sidecar again. A flock belongs to the open file, so threads exclude each other
as processes do. Between calls no file is open that a fork could share.
"""

from __future__ import annotations

import fcntl
import io
import os
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...errors import NotAcquired
from ...runtime.blocking import boottime
from .files import Place, made, opened

_NAP_S_MIN, _NAP_S_MAX = 0.000_2, 0.005

#: The sidecars that calls have open now. The child of a fork closes its copies: otherwise a
#: surviving child would keep the lock of a parent that was killed.
_in_use: weakref.WeakSet[io.FileIO] = weakref.WeakSet()


def _forked() -> None:
    for file in list(_in_use):
        file.close()
    _in_use.clear()


os.register_at_fork(after_in_child=_forked)


@contextmanager
def locked(where: Place, write: bool, timeout: float | None) -> Generator[io.FileIO]:
    """Open and lock the sidecar. If the sidecar is missing, a writer creates it; a reader
    raises."""
    begun = boottime()
    end = None if timeout is None else begun + timeout
    how = fcntl.LOCK_EX if write else fcntl.LOCK_SH
    while True:
        with made(where.note, os.O_RDWR) if write else opened(where.note, os.O_RDONLY) as file:
            _in_use.add(file)
            try:
                if not _lock(file, how, end):
                    raise NotAcquired(
                        f"waited {timeout:g} s for the file {str(where.data)!r}: {_who(file)} is "
                        "in the middle of a call on it (stopped, or a slow disk?). Nothing was "
                        "written; let that process continue, or end it",
                        name=str(where.data),
                        waited=boottime() - begun,
                    )
                if not _is_at(file, where.note):
                    continue  # it was deleted during the wait: open the current one
                yield file
                return
            finally:
                # A close isn't enough while a child that is just being forked has a copy of the
                # descriptor.
                if not file.closed:
                    fcntl.flock(file, fcntl.LOCK_UN)


def _lock(file: io.FileIO, how: int, end: float | None) -> bool:
    """Take the lock; return False if the time has expired.

    This polls, because a blocking flock has no time-out."""
    nap = _NAP_S_MIN
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return True
        left = nap if end is None else end - boottime()
        if left <= 0:
            return False
        time.sleep(min(nap, left))
        nap = min(2 * nap, _NAP_S_MAX)


def _is_at(file: io.FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _who(file: io.FileIO) -> str:
    """Return the process that has the lock, if the kernel shows that process."""
    mine = os.fstat(file.fileno())
    inode = f"{os.major(mine.st_dev):02x}:{os.minor(mine.st_dev):02x}:{mine.st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5] == inode:
                return f"process {words[4]}"
    return "another process"
