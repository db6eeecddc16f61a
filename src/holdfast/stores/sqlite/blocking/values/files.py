"""All files of the values that one client has open; they are opened and closed together."""

from __future__ import annotations

import os

from .....runtime.blocking import walltime
from ..annex import AnnexFiles
from ..header import DATABASE, LOG, NEXT, SHARED_MEMORY, TICKET_MAX, WORLD, Header, boot_id
from ..sql import guards as statements
from .database import ValueDatabase
from .reading import Reading

#: Without a boot id, a boot is known by its start on the wall clock; two starts that differ by less
#: than these seconds are the same boot. If the wall clock jumps further, the values are lost.
BEGAN_S = 60.0
_SQL = statements()


class ValueFiles(AnnexFiles[ValueDatabase]):
    """The file mutex, its header, the database and the other files; see ``way.Room``."""

    def _agree(self, header: Header, now: float) -> ValueDatabase:
        """Open the database if it belongs to this boot and this file mutex; else make an empty one.

        A kill can come anywhere: the next client replaces a database that the file mutex doesn't
        record.
        """
        words, fresh = header.words, header.fresh()
        if fresh:
            header.set_up(0, 0.0, _number())
        header.check()
        booted = not header.same_boot()
        # After a boot the file can be damaged, because no write waited for the disk; its known
        # inode shows that it is ours.
        database = ValueDatabase(self.place, words[DATABASE] if booted else 0)
        try:
            usable = not fresh and not booted and words[DATABASE] == database.inode
            usable = usable and database.complete((words[SHARED_MEMORY], words[LOG]))
            if usable:
                database.connect()
                usable = _same(database.meta("began"), now)
            if not usable:
                words[DATABASE] = 0
                words[WORLD] = _number()
                if booted:
                    header.restart()
                database.make_anew(_began(now))
            database.tune()
            words[DATABASE] = database.inode
            words[SHARED_MEMORY], words[LOG] = database.companions()
        except BaseException:
            database.close()
            raise
        return database

    def _settle(self, now: float) -> None:
        self.reading = Reading(self.database, self.words, self.moved)

    def _unopened(self) -> None:
        reading = getattr(self, "reading", None)
        if reading is not None:
            reading.close()
        super()._unopened()

    def fence(self) -> int:
        """The next fence, greater than all earlier ones."""
        fence = self.words[NEXT]
        if not 0 < fence < TICKET_MAX:  # it is damaged: begin like a new file mutex
            fence = int(walltime() * 1e6)
        self.words[NEXT] = fence + 1
        return fence

    def empty(self, session: str) -> bool:
        """True if this session has no refresh lease."""
        return self.run(_SQL.session_there, (session,)).fetchone() is None

    def close(self) -> None:
        """Close everything."""
        self.reading.close()
        super().close()

    def forked(self) -> None:
        """In the child: close our copies of the parent's descriptors. SQLite's descriptors stay
        open."""
        self.reading.forked()
        super().forked()


def _number() -> int:
    """The number of a new generation, never 0."""
    return int.from_bytes(os.urandom(8), "big") >> 2 | 1


def _began(now: float) -> str:
    """Return a text for this boot: its id, or the time of its start on the wall clock."""
    boot = boot_id()
    return str(boot) if boot else repr(walltime() - now)


def _same(began: str, now: float) -> bool:
    boot = boot_id()
    if boot:
        return began == str(boot)
    return abs(float(began or 0.0) - (walltime() - now)) < BEGAN_S
