"""The database of queues: unlike the locks, its content must outlive a boot of the machine.

A put is synced: its jobs are on the disk before it returns. Takes and acks are not synced by
default: if a power cut loses one, its job is delivered again, as after the death of a worker.
``kill -9`` of any process loses nothing, because the kernel has the written data.
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

#: By the option ``sync``: the mode of the usual transactions, and of the durable ones, such as a
#: put. Never OFF, because a power cut could then damage the file.
SYNC = {"puts": ("NORMAL", "FULL"), "all": ("FULL", "FULL"), "none": ("NORMAL", "NORMAL")}
PAGE_SIZE = 4096
#: Frames in the write-ahead log before it is copied back: 4 MiB.
CHECKPOINT_FRAMES = 1000
#: KiB of the database that each client keeps in memory.
CACHE_KIB = 8192


class JobDatabase(Database):
    """The file with its `lock_fd`; after `connect`, an open database."""

    #: "HFjq" in the SQLite header.
    application = 0x48466A71
    schema = 1

    def tune(self, url: StoreURL) -> None:
        """Open the database, and set when it waits for the disk, by the URL."""
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
        """Set the mode of `SYNC` for the next transaction: the durable or the usual one."""
        mode = self._durable if durable else self._usual
        if mode != self._mode:
            self._mode = ""  # in case an interrupt comes before the last line
            self.connection.execute(f"PRAGMA synchronous = {mode}")
            self._mode = mode

    def put_aside(self) -> str:
        """Copy the database and its log to new names in their folder; return the path."""
        folder = open_parent(self.place)
        try:
            names = (f"{os.path.basename(self.path)}-damaged-{n}" for n in range(1, 1 << 20))
            name = next(one for one in names if one not in os.listdir(folder))
            size = os.fstat(self.lock_fd).st_size
            write(folder, name, os.pread(self.lock_fd, size, 0), self.place.file_mode)
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
    # Leaves room in the file for some hundred jobs, so that deliveries can be settled when the disk
    # is full: pages that the file has already can be written then.
    made.execute(verbs().meta_set, ("room", bytes(ROOM)))
