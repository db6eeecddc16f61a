"""A generation is one life of the lines: file mutex, database and table of lone claims that belong
together.

The number of the generation is in all three files, and the file mutex records the inodes of the
other two. If the three disagree, one was deleted or replaced while it was in use. Then a new, empty
generation begins. The new generation grants nothing until the last expiry of the old one has
passed, because the old holders can rely on their holds until they read the header again. After a
boot all claims are dead, the files are made again, and no client has to wait.

If only the file mutex is missing, and no other client has the files open, nothing is lost: a new
file mutex takes its content from the other two files. If another client has these files open, it
can be inside the old file mutex at this moment. Then the new file mutex gets new files, too, so
that what that client changes in the old files has no effect on others.

Everything here runs inside a file mutex, and in one process at a time, even if there are several
file mutexes (``opening.py``). A kill can come anywhere: the next client that opens the files then
finds a disagreement, and begins the new generation again.
"""

from __future__ import annotations

import os
import sqlite3

from .database import Database, explained
from .header import (
    DATABASE,
    FAR_S,
    LATEST,
    LOG,
    LONE,
    QUIET,
    RESERVED,
    SHARED_MEMORY,
    TICKET_MAX,
    WORLD,
    Header,
    boot_id,
)
from .lone import Lone
from .paths import Place
from .sql import verbs

#: Seconds from now until the assumed last expiry, if the one in the old files can't be read.
UNKNOWN_S = 60.0


def agree(place: Place, header: Header, now: float) -> tuple[Database, Lone]:
    """Open database and table so that they agree with the file mutex; else raise."""
    fresh, words = header.fresh(), header.words
    misplaced = not fresh and header.remember_boot()
    booted = not fresh and not header.same_boot()
    database = Database(place, words[DATABASE] if booted else 0)
    lone: Lone | None = None
    try:
        with explained(place.database, opening=True):
            lone = Lone(place)
            usable = database.there and not booted
            if fresh:
                usable = _found(database, lone, header, now)
            header.check()
            if not fresh and (misplaced or header.damaged(now)):
                header.heal(now, *_known(database, lone, now))
            usable = usable and database.complete((words[SHARED_MEMORY], words[LOG]))
            if not usable:
                # The database is first: it records the time before which no claim is granted.
                database.make(_new_world(header), words[RESERVED], header.floats[QUIET])
                lone.close()
                lone = Lone(place, anew=True)
            _settle(database, lone, header)
            words[DATABASE], words[LONE] = database.inode, lone.inode
            words[SHARED_MEMORY], words[LOG] = database.companions()
            lone.recount([name for (name,) in database.connection.execute(verbs().names)])
    except BaseException:
        database.close()
        if lone is not None:
            lone.close()
        raise
    return database, lone


def _found(database: Database, lone: Lone, header: Header, now: float) -> bool:
    """Set up a new file mutex from the database and the table; return True if these two can be
    used."""
    world, tickets, latest, boot = _number(), [0], 0.0, ""
    alone = database.there and database.alone_soon()
    if database.there:
        try:
            database.connect()
            boot = database.meta("boot")
            number = database.meta("world")
            tickets, latest = _greatest(database, lone)
        except sqlite3.DatabaseError:
            if alone:
                raise
            boot, number, latest = str(boot_id()), "", now + UNKNOWN_S
        if alone and number == str(lone.world):
            world = lone.world
    header.set_up(max(tickets), latest if boot == str(boot_id()) else 0.0, world)
    header.words[DATABASE], header.words[LONE] = database.inode, lone.inode
    return alone


def _known(database: Database, lone: Lone, now: float) -> tuple[int, float]:
    """Return the greatest readable ticket, and the last expiry, at least `UNKNOWN_S` from now."""
    unknown = now + UNKNOWN_S
    if not database.there:
        return 0, unknown
    try:
        database.connect()
        tickets, latest = _greatest(database, lone)
    except (sqlite3.DatabaseError, ValueError):
        return 0, unknown
    sane = [ticket for ticket in tickets if ticket < TICKET_MAX]
    return max(sane, default=0), max(unknown, latest if latest <= now + FAR_S else 0.0)


def _greatest(database: Database, lone: Lone) -> tuple[list[int], float]:
    """Return tickets that can have been given, and the last expiry, also of old generations."""
    run, sql = database.connection.execute, verbs()
    tickets = [int(database.meta("limit") or 0), run(sql.latest_ticket).fetchone()[0] or 0]
    expiries = [run(sql.latest_expiry).fetchone()[0] or 0.0, float(database.meta("quiet") or 0)]
    for claim in lone.claims():
        tickets.append(claim.ticket)
        expiries.append(claim.expires)
    return tickets, max(expiries)


def _settle(database: Database, lone: Lone, header: Header) -> None:
    """Begin a new generation, unless both files belong to the current one, and to this boot."""
    words = header.words
    database.connect()
    agreed = (
        words[DATABASE] == database.inode
        and words[LONE] == lone.inode
        and words[WORLD] == lone.world
        and str(words[WORLD]) == database.meta("world")
    )
    if not agreed:
        _new_world(header)
    if not agreed or database.meta("boot") != str(boot_id()):
        database.clear(words[WORLD], header.floats[QUIET] if header.same_boot() else 0.0)
        lone.begin(words[WORLD])
    if not header.same_boot():
        header.restart()


def _new_world(header: Header) -> int:
    """Begin a generation in the header, by which clients see that the old one has ended."""
    header.floats[QUIET] = max(header.floats[QUIET], header.floats[LATEST])
    header.leap()
    header.words[DATABASE] = 0
    header.words[WORLD] = world = _number()
    return world


def _number() -> int:
    """The number of a new generation, never 0."""
    return int.from_bytes(os.urandom(8), "big") >> 2 | 1
