"""One process at a time opens the files of a store, whichever gate it came through.

A gate excludes only those who know the same file. When somebody deletes it, whoever is inside the
old one and whoever has made a new one are both alone, for a while. Verbs bear that: each works on
the files that it has open, and the newcomer makes others. But while files are looked at, made and
put in their places, two must not be at it, or one would empty what the other has just adopted. So
that is done under a lock of the folder that the database lies in, which outlives the gate.
"""

from __future__ import annotations

import os
import time
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from types import TracebackType
from typing import Self

from ....errors import StoreUnavailable
from .place import Place, unusable

#: Opening takes some milliseconds; who waits for another looks this often, in seconds.
NAP_S = 0.002


class Opening:
    """The lock, for the length of a ``with`` block: an open file of its own each time."""

    def __init__(self, place: Place, end: float) -> None:
        self._folder = os.path.dirname(place.database)
        self._end = end
        self._pid = os.getpid()
        self._fd = -1

    def __enter__(self) -> Self:
        try:
            self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as wrong:
            raise unusable(self._folder, wrong) from None
        while True:
            try:
                flock(self._fd, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= self._end:
                    self.close()
                    raise StoreUnavailable(
                        f"another process is opening a lock database in {self._folder} and does "
                        "not come to an end: see with fuser who has that folder open"
                    ) from None
                time.sleep(NAP_S)
            else:
                return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give it back; in the child of a fork only let go of it, as it is the parent's."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if self._pid == os.getpid():
                flock(fd, LOCK_UN)
            os.close(fd)

    def __del__(self) -> None:
        self.close()
