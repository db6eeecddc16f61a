"""All files of a store that one client has open; they are opened and closed together."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from typing import Protocol

from ....runtime.blocking import boottime
from .gate import Damaged, Gate, Replaced
from .header import LATEST, LIMIT, NEXT, QUIET, SPAN, TOMBS, WHEN, WORLD, Header
from .lines import Lines
from .paths import Place
from .session import Others
from .wake import Post
from .world import agree

#: Maximum number of dead sessions that are looked for when a store is opened.
SWEEP_MAX = 64


class Mail(Protocol):
    """The sockets for wake-ups of this client's claims; they differ for threads and asyncio."""

    def address(self, claim_id: str, post: Post, session: str) -> str | None:
        """Return the address for a claim that begins to wait; None if the claim must poll."""
        ...

    def known(self, claim_id: str) -> str | None:
        """Return the address of this claim, or None if it has none."""
        ...

    def close(self) -> None:
        """Remove every socket."""
        ...

    def forked(self) -> None:
        """In the child of a fork: forget the parent's sockets."""
        ...


class Files:
    """The file mutex, its header, the database and the other files."""

    def __init__(
        self, place: Place, gate: Gate, header: Header, mail: Mail | None, now: float
    ) -> None:
        self.place = place
        self.gate = gate
        self.header = header
        self.words = header.words
        self.floats = header.floats
        #: None: this client can't be woken, so its waiters poll.
        self.mail = mail
        self.others = Others(place)
        self.post = Post(place)
        try:
            self.database, self.lone = agree(place, header, now)
        except BaseException:
            header.close()
            raise
        self.connection: sqlite3.Connection = self.database.connection
        self.cursor = self.connection.cursor()
        self.world = self.words[WORLD]
        #: Our session's name; empty before the first claim.
        self.own = ""
        self.own_bytes = b""
        #: Tickets below this one were given before these files replaced others.
        self.born = 0
        #: The time of the next check that our session is still in its place.
        self.look_at = 0.0

    def lines(self, patience: float) -> Lines:
        """Return the verbs of the database, on these files."""
        return Lines(self.cursor.execute, self.lone, self.others, self, patience)

    @property
    def quiet(self) -> float:
        """The time before which no claim is granted."""
        return self.floats[QUIET]

    @property
    def tombs(self) -> float:
        """The time after which there is no tombstone."""
        return self.floats[TOMBS]

    def ticket(self) -> int:
        """Give the next ticket. No ticket is given twice, even after a power cut."""
        ticket = self.words[NEXT]
        if not 0 < self.words[LIMIT] - ticket <= SPAN:
            self.reserve()
        self.words[NEXT] = ticket + 1
        return ticket

    def reserve(self) -> None:
        """Put the next block of tickets on the disk, while all clients wait at the file mutex."""
        self.require_sane(self.floats[WHEN])
        self.database.set_meta("limit", str(self.header.reserve()))

    def reserved(self, limit: int) -> None:
        """Allow the promised tickets up to this limit to be given: they are on the disk."""
        if limit > self.words[LIMIT]:
            self.database.set_meta("limit", str(limit))
            self.words[LIMIT] = limit

    def require_sane(self, now: float) -> None:
        """Raise Damaged if the file mutex's page contains impossible values."""
        if self.header.damaged(now, in_use=True):
            raise Damaged

    def note_expiry(self, expires: float) -> None:
        """Note that a lease with this expiry is about to be given."""
        if expires > self.floats[LATEST]:
            self.floats[LATEST] = expires

    def note_tomb(self, until: float) -> None:
        """Note that there is a tombstone until this time."""
        if until > self.floats[TOMBS]:
            self.floats[TOMBS] = until

    def belong(self, session: str) -> None:
        """Set the name of our session."""
        self.own, self.own_bytes = session, session.encode()

    def address(self, claim_id: str) -> str | None:
        """Return the address for wake-ups of this claim, with a new socket if it has none."""
        return self.mail.address(claim_id, self.post, self.own) if self.mail else None

    def known_address(self, claim_id: str) -> str | None:
        """Return the address for wake-ups of this claim; None if it has none."""
        return self.mail.known(claim_id) if self.mail else None

    def new_post(self) -> None:
        """Open the folder of the sockets again, because it was replaced."""
        self.post = Post(self.place)

    def dead_sessions(self) -> list[str]:
        """Up to `SWEEP_MAX` sessions that have ended and that no client has removed."""
        found: list[str] = []
        with contextlib.suppress(OSError):
            for name in self.others.names():
                if len(found) < SWEEP_MAX and name != self.own and self.others.ended(name):
                    found.append(name)
        return found

    def close(self) -> None:
        """Close everything; the file mutex is last, because it keeps new clients out meanwhile."""
        self.others.close()
        self.database.close()
        self.lone.close()
        self.header.close()
        self.gate.close()

    def forked(self) -> None:
        """In the child: close our copies of files that would stay locked after the parent's death
        (the file mutex and `Database.lock_fd`), and of files that are only read.

        SQLite's own descriptors stay open.
        """
        self.gate.forked()
        self.database.forked()
        self.others.close()


def enter(place: Place, within: float, hold: Callable[[Gate], None]) -> Header:
    """Open and lock the file mutex; return its header. ``hold`` gets the mutex before it is
    locked."""
    end = boottime() + within
    gate = Gate(place)
    hold(gate)
    gate.enter(end - boottime())
    if gate.moved():
        raise Replaced
    return gate.map()
