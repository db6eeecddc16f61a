"""The database of queues: unlike that of locks, what is in it must outlive the machine's boot.

What is accepted is on the disk before it is said to be: a put is synced. Takes and acks are not,
unless asked for: a power cut that loses one brings its job back, which is what a worker that dies
does, too. ``kill -9`` of any process loses nothing, as the kernel has what was written.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3

from .....url import StoreURL
from ..database import ROOM, Database, write
from ..owned import open_parent
from ..paths import unusable
from ..sql import create_queues, verbs

#: Which transactions wait for the disk, by the option ``sync``: the usual ones, and those that
#: accept something. Never OFF, with which a power cut may damage the file.
SYNC = {"puts": ("NORMAL", "FULL"), "all": ("FULL", "FULL"), "none": ("NORMAL", "NORMAL")}
PAGE_SIZE = 4096
#: Frames in the write-ahead log before it is copied back: 4 MiB.
CHECKPOINT_FRAMES = 1000
#: Of the database in memory, in KiB, per client.
CACHE_KIB = 8192


class JobDatabase(Database):
    """The file, guarded; once it is connected, an open database."""

    #: "HFjq" in the SQLite header.
    application = 0x48466A71
    schema = 1

    def tune(self, url: StoreURL) -> None:
        """Open it, and let it wait for the disk as the URL says."""
        if not self.there:
            self.remake(_fill, PAGE_SIZE)
        self.connect()
        run = self.connection.execute
        run(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_FRAMES}")
        run(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._usual, self._durable = SYNC[url.options.get("sync", "puts")]
        self._mode = ""
        self.sync(False)

    def sync(self, durable: bool) -> None:
        """Whether the next transaction is on the disk when it is committed."""
        mode = self._durable if durable else self._usual
        if mode != self._mode:
            self._mode = ""  # in case an interrupt comes between
            self.connection.execute(f"PRAGMA synchronous = {mode}")
            self._mode = mode

    def put_aside(self) -> str:
        """Keep a copy of it and of its log beside it, for people to look into; its path."""
        folder = open_parent(self.place)
        try:
            names = (f"{os.path.basename(self.path)}-damaged-{n}" for n in range(1, 1 << 20))
            name = next(one for one in names if one not in os.listdir(folder))
            size = os.fstat(self.guard).st_size
            write(folder, name, os.pread(self.guard, size, 0), self.place.file_mode)
            with contextlib.suppress(FileNotFoundError), open(self.path + "-wal", "rb") as log:
                write(folder, name + "-wal", log.read(), self.place.file_mode)
        except OSError as wrong:
            raise unusable(self.path + "-damaged", wrong) from None
        finally:
            os.close(folder)
        return f"{os.path.dirname(self.path)}/{name}"


def _fill(made: sqlite3.Connection) -> None:
    for statement in create_queues().values():
        made.execute(statement)
    # Leaves room in the file for some hundred jobs, so that what is delivered can be settled when
    # the disk is full: what has its place in the file already can be written then.
    made.execute(verbs().meta_set, ("room", bytes(ROOM)))
