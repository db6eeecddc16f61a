"""The database of values: a cache, which never waits for the disk and is made again after a boot.

It is made again for safety: after a power cut, changes that were not on the disk yet are missing,
and a missing invalidation would restore an old value. A new database contains no old value.
"""

from __future__ import annotations

import sqlite3

from ..database import ROOM, Database
from ..sql import create_values, verbs

PAGE_SIZE = 4096
#: Frames in the write-ahead log before it is copied back: 4 MiB.
CHECKPOINT_FRAMES = 1000
#: Size in bytes to which the log is cut when it begins again.
LOG_BYTES = 16 << 20
#: KiB of the database that each connection keeps in memory.
CACHE_KIB = 8192


class ValueDatabase(Database):
    """The file with its `lock_fd`; after `connect`, an open database."""

    #: "HFgv" in the SQLite header.
    application = 0x48466776
    schema = 1

    def make_anew(self, began: str) -> None:
        """Replace the database by an empty one, which records this boot."""

        def fill(made: sqlite3.Connection) -> None:
            for statement in create_values().values():
                made.execute(statement)
            made.execute(verbs().meta_set, ("began", began))
            # Leaves room in the file for some refresh leases and invalidations when the disk is
            # full: pages that the file has already can be written then.
            made.execute(verbs().meta_set, ("room", bytes(ROOM)))

        self.remake(fill, PAGE_SIZE)

    def tune(self) -> None:
        """Open the database, and set its limits."""
        self.connect()
        run = self.connection.execute
        run(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_FRAMES}")
        run(f"PRAGMA journal_size_limit = {LOG_BYTES}")
        run(f"PRAGMA cache_size = -{CACHE_KIB}")
