"""Repair damaged queues: replace the database, while all other clients wait at the file mutex."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from .....core.finding import Finding, Level
from .....errors import ConfigError, StoreUnavailable
from .....runtime.blocking import boottime, walltime
from ..closing import Closing
from ..database import escaped, explained
from ..files import enter
from ..gate import Gate, Replaced
from ..header import PID
from ..opening import Opening
from ..owned import require_companions
from ..paths import Place
from ..sql import jobs as statements
from . import books
from .database import PAGE_SIZE, JobDatabase
from .rows import SEQ_BITS

#: Maximum seconds that a repair waits for the file mutex.
GATE_S = 10.0
_SQL = statements()


def looked(place: Place) -> list[str]:
    """Return messages about the faults of a database."""
    with explained(place.database), _Old(place) as old:
        return _wrong(old)


def mend(place: Place) -> list[Finding]:
    """Repair the queues; report the damage, the lost jobs, and the path of the damaged file."""
    gates: list[Gate] = []
    header = None
    try:
        header = enter(place, GATE_S, gates.append)
        header.words[PID] = os.getpid()
        with Opening(place, boottime() + GATE_S):
            return list(_mend(place))
    except Replaced:
        raise StoreUnavailable(f"another process is replacing {place.gate}: try again") from None
    finally:
        if header is not None:
            header.words[PID] = 0
            header.close()
        for gate in gates:
            gate.close()


def _mend(place: Place) -> Iterator[Finding]:
    database = JobDatabase(place)
    try:
        with explained(place.database), _Old(place) as old:
            wrong = _wrong(old)
            if not wrong:
                yield Finding(Level.OK, "mend", "the queues are whole: nothing is changed")
                return
            yield from (Finding(Level.WARN, "mend", f"was damaged: {one}") for one in wrong)
            kept = database.put_aside()
            told: list[Finding] = []

            def fill(made: sqlite3.Connection) -> None:
                told.extend(_salvaged(old, made))

            database.remake(fill, PAGE_SIZE)
        yield from told
        text = f"the queues work again; the damaged file is kept as {kept}, with its log"
        yield Finding(Level.OK, "mend", text)
    finally:
        database.close()


class _Old:
    """A connection to a database that may be damaged: it only reads."""

    def __init__(self, place: Place) -> None:
        require_companions(place.database)
        address = f"file:{escaped(place.database)}?mode=ro"
        self.connection = sqlite3.connect(
            address, uri=True, timeout=1.0, isolation_level=None, factory=Closing
        )

    def __enter__(self) -> sqlite3.Connection:
        books.prepare(self.connection, _now(self.connection))
        self.connection.execute("BEGIN")
        return self.connection

    def __exit__(self, *_: object) -> None:
        self.connection.close()


def _now(connection: sqlite3.Connection) -> float:
    """Return the time on the clock of the queues; by the wall clock if the row of that clock is
    unreadable."""
    with suppress(sqlite3.Error, ValueError, TypeError, AttributeError):
        (note,) = connection.execute(_SQL.meta_get, ("clock",)).fetchone()
        return boottime() + float(note.partition(" ")[2])
    return walltime()


def _wrong(old: sqlite3.Connection) -> list[str]:
    """Return the faults that SQLite finds; if it finds none, the broken rules of `books`."""
    try:
        (verdict,) = old.execute("PRAGMA integrity_check(1)").fetchone()
        return books.broken(old) if verdict == "ok" else [verdict]
    except sqlite3.Error as wrong:
        return [str(wrong)]


def _salvaged(old: sqlite3.Connection, made: sqlite3.Connection) -> Iterator[Finding]:
    """Fill the new database; report the lost jobs."""
    unread = books.salvage(old, made)
    spoken = {
        number: sum(one for one in counts if isinstance(one, int))
        for number, *counts in made.execute("SELECT id, waiting, taken, dead FROM queues")
    }
    gone = books.gone(old, made)
    books.prepare(made, _now(old))
    books.settle(made)
    if wrong := books.broken(made):
        raise ConfigError(
            f"the queues can't be repaired, and were left unchanged: {wrong[0]}. End the processes "
            "that use them, and move the file away; the next one makes a new one"
        )
    yield from _told(made, gone, spoken)
    yield from _renamed(old, made)
    if unread & {"jobs", "queues"}:
        yield Finding(Level.WARN, "gone", "an unknown number of jobs could not be read")


def _told(
    made: sqlite3.Connection, gone: dict[int, str], spoken: dict[int, int]
) -> Iterator[Finding]:
    """Yield a finding for each lost job, and one per queue for lost jobs that the queue's counts
    show."""
    names = dict(made.execute("SELECT id, name FROM queues").fetchall())
    lost: Counter[int] = Counter()
    for job, job_id in sorted(gone.items()):
        queue = job >> SEQ_BITS
        lost[queue] += 1
        text = books.called(job, names) + (f", id {job_id!r}" if job_id else "")
        yield Finding(Level.WARN, "gone", text, "put it again, if it wasn't done")
    for queue, waiting, taken, dead in made.execute("SELECT id, waiting, taken, dead FROM queues"):
        more = spoken.get(queue, 0) - waiting - taken - dead - lost[queue]
        if 0 < more < 1 << SEQ_BITS:
            text = f"{more} more of queue {names[queue]!r}, whose ids are unknown"
            yield Finding(Level.WARN, "gone", text)


def _renamed(old: sqlite3.Connection, made: sqlite3.Connection) -> Iterator[Finding]:
    """Yield a finding for each job that got another id, because its own one was unreadable."""
    names = dict(made.execute("SELECT id, name FROM queues").fetchall())
    for job, job_id in made.execute("SELECT job, id FROM jobs WHERE id = 'recovered-' || job"):
        with suppress(sqlite3.Error):
            if old.execute("SELECT 1 FROM jobs WHERE job = ? AND id = ?", (job, job_id)).fetchone():
                continue  # an earlier repair gave it this id
        text = f"{books.called(job, names)} now has the id {job_id!r}: its own one is unreadable"
        remedy = "a put with its former id would add the job a second time"
        yield Finding(Level.WARN, "renamed", text, remedy)
