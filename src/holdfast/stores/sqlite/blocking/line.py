"""One line of the database, from its loading to its saving, and its rows.

Every line has a header. One statement reads the header and the first claims; a short line has no
more claims than these.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from ....core.policy import fits
from .lone import Lone
from .odd import corrupt, senseless
from .session import Others
from .sql import verbs

#: A wake-up to send: (address, claim id, fence) of a claim that has just become a holder.
Poke = tuple[str, str, int]
#: Maximum number of holders whose sessions are checked; the other holders end by their expiry.
HOLDERS_SEEN = 32
NEVER = 1e300
#: The greatest integer that SQLite has.
TICKET_MAX = 2**63 - 1
#: Maximum number of dead claims that one verb drops, so that the file mutex is never held for long.
#: If more are left, a waiter that asks is answered with ``retry_in`` 0, and asks again.
STEPS = 500
#: Number of claims that are read with the header; most lines have no more.
KNOWN = 3


class Row(NamedTuple):
    """One claim, in the order of the statements ``front``, ``row_*`` and ``enter``."""

    ticket: int
    id: str
    held: int
    weight: int
    expires: float
    session: str | None
    #: The socket that a wake-up is sent to; None for a claim that polls, or never waited.
    address: str | None
    #: Running number of the waiter, from which positions are computed; 0 if the claim never waited.
    seat: int
    #: 1 after a release with ``after``: the claim can't be renewed.
    leaving: int = 0


_ROW = len(Row._fields)
#: ``_row(Row, values)`` is a faster `Row._make(values)`.
_row = tuple.__new__


class Line:
    """The header of one name, and the operations of the verbs on its line.

    In the order of tickets, the holders come first, then the waiters. ``frontier`` is the ticket of
    the last holder. So the first waiter is found without reading the holders.
    """

    #: ``stored``: is the header in the database? ``loaded``: the header's values in the database.
    stored = False
    loaded: tuple[float, str] = (0.0, "")
    #: The slot of a lone claim that was moved into the line, to be freed after the commit.
    moved = -1
    #: True if the line began, or ended, in this transaction.
    born = died = False

    def __init__(
        self, run: Callable[..., sqlite3.Cursor], lone: Lone, others: Others, own: str
    ) -> None:
        self.run = run
        self.sql = verbs()
        self.lone = lone
        self.others = others
        self.own = own
        #: Sessions that this verb has proven dead or alive.
        self.dead: dict[str, bool] = {}
        #: Sessions of living holders, without our own.
        self.sessions: list[str] = []
        self.pokes: list[Poke] = []
        #: Tickets that this verb has removed from the line.
        self.dropped: set[int] = set()
        #: The first claims of the line, as far as they have been read.
        self.known: list[Row] = []
        #: The number of dead claims that this verb may still drop.
        self.steps = STEPS

    def new(self, name: str, kind: str, capacity: int) -> None:
        """Start as an empty line, also after the last claim of the line was dropped."""
        self.name, self.kind, self.capacity = name, kind, capacity
        self.former = self.used = self.seats = self.waiters = self.holders = self.frontier = 0
        self.first = NEVER
        self.loaded = (0.0, "")
        self.known = []

    def load(self, name: str) -> bool:
        """Read the line, and move the name's lone claim into it; False if the name has no claim."""
        self.name = name
        found = self.run(self.sql.front, (name, KNOWN + 1)).fetchall()
        alone = self.lone.find(name)
        if alone is not None:
            self.moved = alone.slot
        if found:
            # If a slot has this name too, a client was killed before it could free the slot.
            header, *rows = found
            self.stored = True
            self.loaded = self.first, state = header[4], header[_ROW]
            try:
                self.kind, *numbers = str(state).split()
                (
                    self.capacity, self.former, self.used, self.seats,
                    self.waiters, self.holders, self.frontier,
                ) = map(int, numbers)  # fmt: skip
            except ValueError:
                raise senseless(name) from None
            self.known = [_row(Row, row[:_ROW]) for row in rows]
            if len(rows) < KNOWN or self.complete():
                self._compare()
            return True
        if alone is None:
            return False
        self.new(name, alone.kind, alone.capacity)
        row = Row(
            alone.ticket, alone.id, 1, alone.weight, alone.expires, alone.session or None, None, 0
        )
        self.insert(row, (alone.ttl, alone.since, alone.owner, alone.meta))
        self.first = alone.first
        return True

    def insert(self, row: Row, more: tuple[float, float, str, str]) -> None:
        """Add a claim at the end of the line. ``more``: its ttl, start, owner and note.

        Raises IntegrityError, and changes nothing, if a claim of that id is in the line already. A
        new line is counted in the table of lone claims before it is committed.
        """
        self.run(self.sql.enter, (self.name, *row[:-1], *more))
        if not self.stored and not self.born:
            self.born = True
            self.lone.born(self.name)
        if self.complete():
            self.known.append(row)
        if row.held:
            self.holders += 1
            self.used += row.weight
            self.frontier = row.ticket
        else:
            self.waiters += 1
            self.seats = row.seat
        self.first = min(self.first, row.expires)

    def _compare(self) -> None:
        """Raise if the claims don't match the counts of the header; all claims must be known."""
        held = used = 0
        for row in self.known:
            if row.held:
                held += 1
                used += row.weight
        if (held, used, len(self.known) - held) != (self.holders, self.used, self.waiters):
            raise senseless(self.name)

    def save(self) -> None:
        """Write the header, or delete it if the line is empty; raise if a count is impossible."""
        none = self.used if not self.holders else 0  # weight without a holder
        if none or not 0 <= self.holders <= self.used or self.waiters < 0:
            raise senseless(self.name)
        if self.empty():
            if self.stored:
                self.run(self.sql.header_delete, (self.name,))
            self.died = self.stored or self.born
            return
        state = (
            f"{self.kind} {self.capacity} {self.former} {self.used} {self.seats} "
            f"{self.waiters} {self.holders} {self.frontier}"
        )
        values = self.first, state
        if values != self.loaded:
            statement = self.sql.header_update if self.stored else self.sql.header_insert
            self.run(statement, (self.name, *values))

    def empty(self) -> bool:
        """Has the line no claim?"""
        return not self.holders and not self.waiters

    def complete(self) -> bool:
        """Are all claims of the line known?"""
        return len(self.known) == self.holders + self.waiters

    def find(self, claim_id: str, ticket: int) -> Row | None:
        """Return the claim with this secret id, or None. Its ticket, if not 0, is tried first."""
        for row in self.known:
            if row.id == claim_id:
                return row
        if self.complete():
            return None
        if ticket:
            there = self._row(self.sql.row_by_ticket, ticket)
            if there is not None and there.id == claim_id:
                return there
        return self._row(self.sql.row_by_id, claim_id)

    def at(self, ticket: int) -> Row | None:
        """Return the claim with this public ticket, or None."""
        return self._row(self.sql.row_by_ticket, ticket) if ticket > 0 else None

    def ahead(self) -> str:
        """The owner of the first claim of the line."""
        first = self.known[0] if self.known else self._row(self.sql.row_after, 0)
        return str(self.words(first.ticket)[0]) if first is not None else ""

    def words(self, ticket: int) -> tuple[str, float]:
        """Owner and ttl of a claim."""
        found: tuple[str, float] = self.run(self.sql.words, (self.name, ticket)).fetchone()
        return found

    def head(self) -> Row | None:
        """The first waiter."""
        if not self.waiters:
            return None
        if self.holders < len(self.known):
            return self.known[self.holders]
        return self._row(self.sql.row_after, self.frontier)

    def before(self, ticket: int) -> Row | None:
        """Return the claim directly ahead of this ticket, or None."""
        ahead: Row | None = None
        for row in self.known:
            if row.ticket >= ticket:
                return ahead
            ahead = row
        return ahead if self.complete() else self._row(self.sql.row_before, ticket)

    def living_before(self, ticket: int) -> Row | None:
        """Drop the dead waiters directly ahead of this ticket; then do the same as `before`."""
        while (ahead := self.before(ticket)) is not None:
            if ahead.held or not self.is_dead(ahead.session) or self.steps <= 0:
                return ahead
            self._bury(ahead.ticket, 0, ahead.weight)
        return None

    def _row(self, statement: str, what: object) -> Row | None:
        found = self.run(statement, (self.name, what)).fetchone()
        return Row._make(found) if found is not None else None

    def note(self, changed: Row) -> None:
        """Update a known claim whose row has changed in the database."""
        for index, row in enumerate(self.known):
            if row.ticket == changed.ticket:
                self.known[index] = changed

    def drop(self, ticket: int, held: int, weight: int) -> None:
        """Remove a claim from the line."""
        self._weigh(weight)
        self.run(self.sql.drop, (self.name, ticket))
        self.dropped.add(ticket)
        self.known = [row for row in self.known if row.ticket != ticket]
        if held:
            self.used -= weight
            self.holders -= 1
        else:
            self.waiters -= 1

    def _weigh(self, weight: int) -> None:
        """Raise if a claim's weight is impossible: it would make room for other claims."""
        if weight < 1:
            raise senseless(self.name)

    def _bury(self, ticket: int, held: int, weight: int) -> None:
        """Remove a dead claim from the line."""
        self.steps -= 1
        self.drop(ticket, held, weight)

    def settle(self, now: float, quiet: float, briefly: bool = False) -> None:
        """Drop dead and expired claims, then grant the first waiter while it fits.

        No claim is granted before ``quiet``: until then the holders of a database that was deleted
        can still rely on their holds. ``briefly``: stop when the capacity is used up, and let the
        next verb drop a dead first waiter.
        """
        if now >= self.first:
            self._sweep(now)
        self._drop_dead_holders()
        if self.waiters:
            self._grant(now, quiet, briefly)

    def _sweep(self, now: float) -> None:
        """Drop expired holders and find the next expiry. This costs O(n) per expiry that passes."""
        sql = self.sql
        values = (self.name, self.frontier, now, max(self.steps, 0))
        for ticket, weight in self.run(sql.holders_expired, values).fetchall():
            self._bury(ticket, 1, weight)
        if self.steps <= 0:
            return  # there can be more, which the next verb drops
        first = self.run(sql.first_expiry, (self.name, now)).fetchone()[0]
        self.first = NEVER if first is None else first

    def _drop_dead_holders(self) -> None:
        self.sessions = []
        if not self.holders:
            return
        for ticket, weight, session in self._holders():
            if session is None or session == self.own:
                continue
            if self.is_dead(session):
                self.drop(ticket, 1, weight)
            elif session not in self.sessions:
                self.sessions.append(session)

    def _holders(self) -> list[tuple[int, int, str | None]]:
        """Ticket, weight and session of the holders whose sessions are checked."""
        if self.holders <= len(self.known):
            return [(row.ticket, row.weight, row.session) for row in self.known[: self.holders]]
        values = (self.name, self.frontier, HOLDERS_SEEN)
        return self.run(self.sql.holders, values).fetchall()

    def is_dead(self, session: str | None) -> bool:
        """Is it proven that this session has ended? Looked up once per verb."""
        if session is None or session == self.own:
            return False
        known = self.dead.get(session)
        if known is None:
            known = self.dead[session] = self.others.dead(session)
        return known

    def _grant(self, now: float, quiet: float, briefly: bool) -> None:
        """Grant waiters from the front while they fit. Each keeps its expiry until its first
        renewal."""
        while (row := self.head()) is not None:
            if row.expires <= now or row.weight > self.capacity or self.is_dead(row.session):
                if self.steps <= 0:
                    return
                self._bury(row.ticket, 0, row.weight)
                continue
            if now < quiet or not fits(self.capacity, self.used, row.weight):
                return
            self._weigh(row.weight)
            self.run(self.sql.grant, (self.name, row.ticket, now))
            self.note(row._replace(held=1))
            self.waiters -= 1
            self.holders += 1
            self.used += row.weight
            self.frontier = row.ticket
            if row.address is not None:
                if not 0 < row.ticket <= TICKET_MAX or not isinstance(row.id, str):
                    raise corrupt(f"no claim can be {row.id!r} with the ticket {row.ticket!r}")
                self.pokes.append((row.address, row.id, row.ticket))
            if briefly and self.used >= self.capacity:
                return
