"""All files of the queues that one client has open; they are opened and closed together."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable

from .....errors import StoreUnavailable
from .....runtime.blocking import walltime
from .....url import StoreURL
from ..annex import AnnexFiles
from ..gate import Gate
from ..header import DATABASE, LOG, SHARED_MEMORY, Header, boot_id
from ..paths import Place
from ..sql import jobs as statements
from .database import JobDatabase

#: Seconds after which an unused queue is forgotten, with its counts.
UNUSED_S = 31 * 86_400.0
_SQL = statements()


class JobFiles(AnnexFiles[JobDatabase]):
    """The file mutex, its header, the database and the other files; see ``way.Room``."""

    def __init__(self, place: Place, gate: Gate, header: Header, url: StoreURL, now: float) -> None:
        self._url = url
        self.remedy = remedy(url)
        super().__init__(place, gate, header, now)

    def _agree(self, header: Header, now: float) -> JobDatabase:
        database = JobDatabase(self.place)
        try:
            _agree(database, header, self._url)
        except BaseException:
            database.close()
            raise
        return database

    def _settle(self, now: float) -> None:
        #: Added to the clock of this boot, so that the sum never goes back, not even after a boot.
        self.offset = _offset(self.run, now)

    def empty(self, session: str) -> bool:
        """True if this session has no delivery."""
        return self.run(_SQL.session_there, (session,)).fetchone() is None


def remedy(url: StoreURL) -> str:
    """The remedy for damaged queues."""
    import shlex  # because few programs meet this error

    return (
        f"run holdfast doctor --mend --url {shlex.quote(str(url))}, which repairs the queues "
        "and lists the lost jobs"
    )


def _agree(database: JobDatabase, header: Header, url: StoreURL) -> None:
    """Open the database; raise an error if it does not belong to this file mutex."""
    words = header.words
    if header.fresh():
        header.set_up(0, 0.0, int.from_bytes(os.urandom(8), "big") >> 2 | 1)
    header.check()
    if not header.same_boot():
        header.restart()
    same = words[DATABASE] == database.inode
    if same and not database.complete((words[SHARED_MEMORY], words[LOG])):
        raise StoreUnavailable(
            f"the log of {database.path} was deleted while it was in use: end all processes that "
            "use it, so that they write their changes, and only then start again"
        )
    database.tune(url)
    words[DATABASE] = database.inode
    words[SHARED_MEMORY], words[LOG] = database.companions()


def _offset(run: Callable[..., sqlite3.Cursor], now: float) -> float:
    """The offset that is added to the clock of this boot.

    The offset is set once per boot, for all clients: by the wall clock, or by the latest time in
    the database if the wall clock is behind that time. So later jumps of the wall clock have no
    effect, and the time during which the machine is off counts, too.
    """
    boot = str(boot_id())
    row = run(_SQL.meta_get, ("clock",)).fetchone()
    (latest,) = run(_SQL.latest).fetchone()
    if row is not None:
        known, _, offset = row[0].partition(" ")
        if known == boot and now + float(offset) >= latest:
            return float(offset)
    found: float = max(walltime(), latest) - now
    run("BEGIN IMMEDIATE")
    run(_SQL.meta_set, ("clock", f"{boot} {found!r}"))
    run(_SQL.queues_forget, (now + found - UNUSED_S,))
    run("COMMIT")
    return found
