"""The database of values: a cache, so nobody waits for the disk, and it is made again after a boot.

That is more than a saving. What wasn't on the disk when the power went would be missing afterwards,
and an invalidation that is missing is an old value that comes back. With nothing kept over a boot
there is nothing that could.
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
#: Of the database in memory, in KiB, per connection.
CACHE_KIB = 8192


class ValueDatabase(Database):
    """The file, guarded; once it is connected, an open database."""

    #: "HFgv" in the SQLite header.
    application = 0x48466776
    schema = 1

    def make_anew(self, began: str) -> None:
        """Put an empty one in its place, which knows when this boot began."""

        def fill(made: sqlite3.Connection) -> None:
            for statement in create_values().values():
                made.execute(statement)
            made.execute(verbs().meta_set, ("began", began))
            # Leaves room in the file for some refresh leases and invalidations when the disk is
            # full: what has its place in the file already can be written then.
            made.execute(verbs().meta_set, ("room", bytes(ROOM)))

        self.remake(fill, PAGE_SIZE)

    def tune(self) -> None:
        """Open it."""
        self.connect()
        run = self.connection.execute
        run(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_FRAMES}")
        run(f"PRAGMA journal_size_limit = {LOG_BYTES}")
        run(f"PRAGMA cache_size = -{CACHE_KIB}")
