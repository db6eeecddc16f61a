"""A world is one life of the lines: gate, database and table of lone claims that belong together.

Its number stands in all three, and each knows the others' files. When they disagree, one was
deleted or replaced under us. Then a new world begins, empty, in which nobody is served until
the last expiry of the old one has passed, because its holders may still believe in their holds
until they look at the header again. After a boot everything is dead, and nobody has to wait.

If only the gate is gone, nothing is lost: a new one takes what it must know from the others.

Everything here runs inside the gate, and may be cut short by a kill anywhere: the next who opens
then finds a disagreement, and begins the new world again.
"""

from __future__ import annotations

import secrets

from .database import Database, explained
from .header import DATABASE, LATEST, LOG, LONE, QUIET, SHARED_MEMORY, WORLD, Header, boot_id
from .lone import Lone
from .place import Place
from .sql import verbs


def agree(place: Place, header: Header) -> tuple[Database, Lone]:
    """Open database and table so that they agree with the gate; or say what is wrong."""
    with explained(place.database, opening=True):
        database, lone = Database(place), None
        try:
            lone = Lone(place)
            if header.fresh():
                _found(database, lone, header)
            else:
                header.check()
                _join(database, lone, header)
            words = header.words
            words[DATABASE], words[LONE] = database.inode, lone.inode
            words[SHARED_MEMORY], words[LOG] = database.companions()
            lone.recount([name for (name,) in database.connection.execute(verbs().names)])
        except BaseException:
            database.close()
            if lone is not None:
                lone.close()
            raise
    return database, lone


def _found(database: Database, lone: Lone, header: Header) -> None:
    """The gate is new: it starts from what the database and the table know, which live on."""
    if not database.there:
        database.make(0)
    database.connect()
    alive = database.there and database.meta("boot") == str(boot_id())
    kept = alive and lone.there and str(lone.world) == database.meta("world")
    world = _number()
    if alive:
        database.set_meta("world", str(world))
    else:
        database.clear(world)
    if kept:
        lone.rename(world)
    else:
        lone.begin(world)
    run, sql = database.connection.execute, verbs()
    tickets = [int(database.meta("limit") or 0), run(sql.latest_ticket).fetchone()[0] or 0]
    expiries = [run(sql.latest_expiry).fetchone()[0] or 0.0]
    for claim in lone.claims():
        tickets.append(claim.ticket)
        expiries.append(claim.expires)
    header.set_up(max(tickets), max(expiries), world)


def _join(database: Database, lone: Lone, header: Header) -> None:
    """The gate is in use, or was."""
    words = header.words
    there = database.there and database.complete((words[SHARED_MEMORY], words[LOG]))
    if not there:
        database.make(_new_world(header))
    database.connect()
    replaced = there and not (
        words[DATABASE] == database.inode
        and words[LONE] == lone.inode
        and words[WORLD] == lone.world
        and str(words[WORLD]) == database.meta("world")
    )
    if replaced:
        _new_world(header)
    if replaced or not there or database.meta("boot") != str(boot_id()):
        lone.begin(words[WORLD])
        database.clear(words[WORLD])
    if not header.same_boot():
        header.restart()


def _new_world(header: Header) -> int:
    """From now on the old world's holders can see that theirs has ended."""
    header.floats[QUIET] = max(header.floats[QUIET], header.floats[LATEST])
    header.words[DATABASE] = 0
    header.words[WORLD] = world = _number()
    return world


def _number() -> int:
    """The number of a new world, never 0."""
    return secrets.randbits(62) | 1
