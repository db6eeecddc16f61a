"""A generation is one life of the lines: file mutex, database and table of lone claims that belong
together.

Its number stands in all three, and the file mutex knows the others' files. When they disagree, one
was deleted or replaced under us. Then a new generation begins, empty, in which nobody is served
until the last expiry of the old one has passed, because its holders may still believe in their
holds until they look at the header again. After a boot everything is dead, the files are made
again, and nobody has to wait.

If only the file mutex is gone, and nobody else is here, nothing is lost: a new one takes what it
must know from the others. While another client is here it may be inside the old file mutex at this
moment, so then the new file mutex gets new files too: what that client does to the old ones
concerns nobody any more.

Everything here runs inside the file mutex, one process at a time whichever file mutex it is
(``opening.py``), and may be cut short by a kill anywhere: the next client that opens the files then
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

#: When what the old files said of their last expiry can't be read, this many seconds from now.
UNKNOWN_S = 60.0


def agree(place: Place, header: Header, now: float) -> tuple[Database, Lone]:
    """Open database and table so that they agree with the file mutex; or say what is wrong."""
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
                # The database first, because it remembers until when nobody may be served.
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
    """Set up a new file mutex from what the database and the table know; may they be used
    further?"""
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
    """The greatest ticket and the last expiry that can be read, and what might be beyond them."""
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
    """Tickets that may have been given, and the last expiry, of generations before this one too."""
    run, sql = database.connection.execute, verbs()
    tickets = [int(database.meta("limit") or 0), run(sql.latest_ticket).fetchone()[0] or 0]
    expiries = [run(sql.latest_expiry).fetchone()[0] or 0.0, float(database.meta("quiet") or 0)]
    for claim in lone.claims():
        tickets.append(claim.ticket)
        expiries.append(claim.expires)
    return tickets, max(expiries)


def _settle(database: Database, lone: Lone, header: Header) -> None:
    """Begin a new generation, if these files aren't of the file mutex's; after a boot, in any
    case."""
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
    """From now on the old generation's holders can see that theirs has ended."""
    header.floats[QUIET] = max(header.floats[QUIET], header.floats[LATEST])
    header.leap()
    header.words[DATABASE] = 0
    header.words[WORLD] = world = _number()
    return world


def _number() -> int:
    """The number of a new generation, never 0."""
    return int.from_bytes(os.urandom(8), "big") >> 2 | 1
