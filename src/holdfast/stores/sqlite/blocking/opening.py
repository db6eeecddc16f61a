"""The lock for opening a store: one process at a time opens its files, through any file mutex.

A file mutex excludes only clients that have the same file open. If the file is deleted, one client
can be inside the old file mutex, and another one inside a new one. Verbs tolerate this: each uses
the files that its client has open, and the new client makes new files. But if two clients opened
the store at the same time, one client could empty files that the other client has just begun to
use. So a store is opened under a lock of the database's folder, which outlives the file mutex.

Every process that can read a folder can lock it, and keep all others out. So if users without
access to the locks can read the folder, the lock is on a file next to the database instead, which
these users can't open.
"""

from __future__ import annotations

import os
import time
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from types import TracebackType
from typing import Self

from ....errors import StoreUnavailable
from ....runtime.blocking import boottime
from .owned import open_file, open_parent
from .paths import Place
from .place import others_read

#: Seconds between two tries for the lock; opening takes some milliseconds.
NAP_S = 0.002


class Opening:
    """The lock, held in a ``with`` block through a separate open file."""

    _fd = -1

    def __init__(self, place: Place, end: float) -> None:
        self._place = place
        self._end = end
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        while True:
            path = self._open()
            try:
                flock(self._fd, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                if boottime() >= self._end:
                    self.close()
                    raise StoreUnavailable(
                        f"another process is opening a lock database at {path} and does "
                        f"not come to an end: see with fuser who has {path} open"
                    ) from None
                time.sleep(NAP_S)
            else:
                if self._there(path):
                    return self
                self.close()

    def _open(self) -> str:
        """Open the file or folder to lock, unless it is open; return its path."""
        place = self._place
        folder = os.path.dirname(place.database)
        path = place.database + "-opening" if others_read(place) else folder
        if self._fd < 0:
            if path == folder:
                self._fd = open_parent(place)
            else:
                self._fd, _ = open_file(path, place)
        return path

    def _there(self, path: str) -> bool:
        """Does the path still lead to the file or folder that we have locked?"""
        try:
            there, ours = os.stat(path), os.fstat(self._fd)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock. In the child of a fork, the lock is the parent's: close only our
        copy."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if self._pid == os.getpid():
                flock(fd, LOCK_UN)
            os.close(fd)

    def __del__(self) -> None:
        self.close()
