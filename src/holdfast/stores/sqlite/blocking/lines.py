"""The verbs on a line, in SQL, each inside one transaction.

They do the same as those in ``stores/memory/line.py``, statement by statement, with one addition: a
claim belongs to a session. A verb drops each claim that it meets if the kernel has proven the
claim's session dead. Every statement accesses rows by their key, so a verb costs O(log n), except
for one scan of the line whenever the earliest expiry in it has passed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING

from ....core.model import (
    WAITERS_MAX,
    Change,
    Claim,
    Full,
    Gone,
    Held,
    Joined,
    Kind,
    Leave,
    LineRecord,
    Loss,
    Mismatch,
    Refused,
    Renewal,
    Standing,
    Waiting,
)
from ....core.policy import ASK_AGAIN_S_MAX, TOMB_S, fits
from . import look
from .line import STEPS, Line, Poke, Row
from .lone import Lone, LoneClaim
from .session import Others
from .sql import verbs

if TYPE_CHECKING:
    from .files import Files

#: Each waiter watches the session of the claim ahead of it. Waiters up to this position also watch
#: the sessions of the holders.
WATCH_HOLDERS = 3
#: Maximum number of names from which one verb removes the claims of a dead session, so that the
#: file mutex is never held for long.
PORTION = 200
#: Number of new tombstones after which expired ones are removed.
CLEAN_EVERY = 64
DELETED = "the holders of a lock database that was deleted"


class Lines:
    """The verbs on the database. The caller holds the file mutex and has begun a transaction."""

    def __init__(
        self,
        run: Callable[..., sqlite3.Cursor],
        lone: Lone,
        others: Others,
        world: Files,
        patience: float,
    ) -> None:
        self.run = run
        self.lone = lone
        self.others = others
        self.world = world
        self.patience = patience
        self.sql = verbs()
        #: The effects of the transaction, applied after the commit.
        self.pokes: list[Poke] = []
        self.dead: set[str] = set()
        self._moved: list[int] = []
        self._born: list[str] = []
        self._died: list[str] = []
        self._buried = 0

    def begin(self) -> None:
        """Reset the effects, because a transaction begins."""
        if self.pokes:
            self.pokes.clear()
        if self.dead:
            self.dead.clear()
        if self._moved:
            self._moved.clear()
        if self._born:
            self._born.clear()
        if self._died:
            self._died.clear()

    def committed(self) -> None:
        """Apply the effects of the commit. The slots are freed first, so that a kill between the
        two loops leaves no lone claim whose line has ended. A line leaves `_died` before it is
        subtracted: if it were subtracted twice, the count of its slot could miss another line."""
        while self._moved:
            self.lone.free(self._moved[-1])
            self._moved.pop()
        while self._died:
            self.lone.died(self._died.pop())

    def rolled_back(self) -> None:
        """Subtract the new lines from the counts, because their transaction was undone."""
        for name in self._born:
            self.lone.died(name)

    # -- the verbs -------------------------------------------------------------------------

    def join(self, claim: Claim, wait: bool, now: float) -> Joined:
        """See :meth:`holdfast.core.ports.Store.join`."""
        spec = claim.spec
        reason = self.tomb(claim.id, now)
        if reason is not None:
            return Gone(reason)
        line = self._line()
        there = line.load(spec.name)
        if there:
            line.settle(now, self.world.quiet)
            there = not line.empty()
        answer = self._join(line, there, claim, wait, now)
        self._save(line)
        return answer

    def _join(self, line: Line, there: bool, claim: Claim, wait: bool, now: float) -> Joined:
        spec = claim.spec
        if not there:
            line.new(spec.name, str(spec.kind), spec.capacity)
        same = line.kind == spec.kind and spec.capacity in (line.capacity, line.former)
        fit = not line.waiters and fits(line.capacity, line.used, spec.weight)
        held = not there or (same and fit)
        held = held and now >= self.world.quiet
        enters = held or (same and spec.weight <= line.capacity and wait)
        if enters and line.waiters < WAITERS_MAX:
            try:
                return self._enter(line, claim, now, held)
            except sqlite3.IntegrityError:
                pass  # A repeated request: the claim is in the line already.
        row = line.find(claim.id, 0) if there else None
        if row is not None:
            return self._again(line, row, now)
        if not same or spec.weight > line.capacity:
            return Mismatch(line.kind, line.capacity)
        if not wait:
            return Refused(self._retry_in(line, now), (there and line.ahead()) or DELETED)
        return Full(line.waiters)

    def renew(self, renewal: Renewal, now: float) -> Standing:
        """See :meth:`holdfast.core.ports.Store.renew`; this renews one claim of the batch."""
        claim, ticket, ttl, weight = renewal
        line = self._line()
        row = self._find(line, claim, ticket, now)
        if isinstance(row, Gone):
            return row
        if not row.held:
            answer = self._waiting(line, row, now)
            self._save(line)
            return answer
        if 0 < weight < row.weight:
            line.used -= row.weight - weight
            row = row._replace(weight=weight)
        return self._renew(line, row, ttl, now)

    def turn(self, claim: Claim, ticket: int, now: float) -> Standing:
        """See :meth:`holdfast.core.ports.Store.turn`.

        Any process that knows the id may ask, but the claim belongs to the session of the process
        that joined it: wake-ups go to that process, and after its death the claim is ``Gone``.
        """
        line = self._line()
        row = self._find(line, claim, ticket, now)
        if isinstance(row, Gone):
            return row
        if not row.held:
            row = self._stay(line, row, self.world.known_address(row.id), now)
            line.settle(now, self.world.quiet)
            line.pokes = [p for p in line.pokes if p[1] != row.id]
        answer: Standing = Gone(Loss.EXPIRED)
        if row.ticket not in line.dropped:
            if row.ticket <= line.frontier:
                return self._renew(line, row, claim.spec.ttl, now)
            answer = self._waiting(line, row, now)
        self._save(line)
        return answer

    def change(self, change: Change, now: float) -> Standing:
        """See :meth:`holdfast.core.ports.Store.change`."""
        claim, ticket, ttl, new_id, detach = change
        line = self._line()
        row = self._find(line, claim, ticket, now, new_id)
        if isinstance(row, Gone):
            return row
        given_up = self.tomb(new_id, now) if new_id and row.id != new_id else None
        if given_up is not None or not row.held:
            self._save(line)
            return Gone(given_up or Loss.EXPIRED)
        owner = None
        if new_id:
            row, owner = row._replace(id=new_id, session=self.world.own), claim.spec.owner
        if detach:
            row = row._replace(session=None)
        return self._renew(line, row, ttl, now, owner)

    def _find(
        self, line: Line, claim: Claim, ticket: int, now: float, new_id: str = ""
    ) -> Row | Gone:
        """Load the line; return the claim, or `Gone` if it isn't there or has ended.

        A hold with the ``new_id`` is this claim after an earlier, equal request.
        """
        if not line.load(claim.spec.name):
            return self._gone(claim, ticket, now)
        row = line.find(new_id, ticket) if new_id else None
        if row is None or not row.held:
            row = line.find(claim.id, ticket)
        if row is None:
            gone = self._gone(claim, ticket, now)
        elif row.leaving or row.expires <= now or line.is_dead(row.session):
            line.settle(now, self.world.quiet)
            gone = Gone(Loss.EXPIRED)
        else:
            return row
        self._save(line)
        return gone

    def _renew(
        self, line: Line, row: Row, ttl: float, now: float, owner: str | None = None
    ) -> Held:
        """Renew a hold, with the weight, id and session of ``row``, and save its line."""
        row = row._replace(held=1, expires=max(row.expires, now + ttl))
        self.world.note_expiry(row.expires)
        values = (line.name, row.ticket, row.expires, ttl, row.weight, row.id, row.session, owner)
        self.run(self.sql.renew_held, values)
        line.note(row)
        line.settle(now, self.world.quiet)
        self._save(line)
        return Held(row.ticket, ttl)

    def leave(self, leave: Leave, now: float) -> bool:
        """See :meth:`holdfast.core.ports.Store.leave`."""
        if leave.suspect:
            self._bury(leave.id, now, leave.ttl, Loss.RELEASED)
        line = self._line()
        if not line.load(leave.name):
            return False
        return self._end(line, line.find(leave.id, leave.ticket), leave.after, now)

    def break_(self, name: str, ticket: int, now: float) -> bool:
        """See :meth:`holdfast.core.ports.Store.break_`."""
        line = self._line()
        if not line.load(name):
            return False
        if (row := line.at(ticket)) is not None:
            self._bury(row.id, now, line.words(ticket)[1], Loss.BROKEN)
        return self._end(line, row, 0.0, now)

    def _end(self, line: Line, row: Row | None, after: float, now: float) -> bool:
        alive = row is not None and row.expires > now
        if row is not None and alive and row.held and after > 0:
            if not row.leaving:
                self.world.note_expiry(now + after)
                self.run(self.sql.leave_later, (line.name, row.ticket, now + after))
                line.first = min(line.first, now + after)
        elif row is not None:
            line.drop(row.ticket, row.held, row.weight)
            if not line.empty():
                line.settle(now, self.world.quiet, briefly=True)
        self._save(line)
        return alive

    def resize(self, name: str, capacity: int, now: float) -> int | Mismatch | None:
        """See :meth:`holdfast.core.ports.Store.resize`."""
        line = self._line()
        if not line.load(name):
            return None
        line.settle(now, self.world.quiet)
        former = line.capacity
        answer: int | Mismatch | None = former
        if line.empty():
            answer = None
        elif line.kind != Kind.SEMAPHORE:
            answer = Mismatch(line.kind, line.capacity)
        elif capacity != former:
            line.former, line.capacity = former, capacity
            line.settle(now, self.world.quiet)
        self._save(line)
        return answer

    def inspect(
        self, prefix: str, exact: bool, alone: list[LoneClaim], now: float
    ) -> list[LineRecord]:
        """See :meth:`holdfast.core.ports.Store.inspect`. The caller has begun a snapshot."""
        names = look.names(prefix, exact)
        alone = [claim for claim in alone if names[0] <= claim.name < names[1]]
        rows = self.run(self.sql.names_between, names).fetchall()
        return look.records(rows, alone, self._line().is_dead, now)

    def bury(self, session: str, now: float) -> bool:
        """Remove a portion of a dead session's claims; True if the session has no claim left."""
        names = [name for (name,) in self.run(self.sql.session_names, (session, PORTION))]
        for claim in self.lone.claims():
            if claim.session == session and claim.name not in names:
                names.append(claim.name)
        left = STEPS
        for name in names[:PORTION]:
            line = self._line()
            if line.load(name):
                rows = self.run(self.sql.session_rows, (name, session, left)).fetchall()
                for row in rows:
                    line.drop(*row)
                line.settle(now, self.world.quiet)
                self._save(line)
                left -= len(rows)
                if left <= 0:
                    return False
        return len(names) < PORTION

    def tomb(self, claim_id: str, now: float) -> Loss | None:
        """Return the reason in this id's tombstone, or None. An id with a tombstone can't enter."""
        if now >= self.world.tombs:
            return None
        found = self.run(self.sql.tomb, (claim_id,)).fetchone()
        return Loss(found[1]) if found is not None and found[0] > now else None

    # -- the parts -------------------------------------------------------------------------

    def _line(self) -> Line:
        return Line(self.run, self.lone, self.others, self.world.own)

    def _save(self, line: Line) -> None:
        line.save()
        self.pokes += line.pokes
        self.dead.update(name for name, dead in line.dead.items() if dead)
        if line.moved >= 0:
            self._moved.append(line.moved)
        if line.born:
            self._born.append(line.name)
        if line.died:
            self._died.append(line.name)

    def _enter(self, line: Line, claim: Claim, now: float, held: bool) -> Joined:
        spec = claim.spec
        world = self.world
        ticket = world.ticket()
        expires = now + (spec.ttl if held else self.patience)
        world.note_expiry(expires)
        address, seat = (None, 0) if held else (world.address(claim.id), line.seats + 1)
        row = Row(ticket, claim.id, int(held), spec.weight, expires, world.own, address, seat)
        line.insert(row, (spec.ttl, now, spec.owner, spec.meta))
        return Held(ticket, spec.ttl) if held else self._waiting(line, row, now)

    def _again(self, line: Line, row: Row, now: float) -> Joined:
        """Return the standing of a claim that is in the line already; renew it if it waits."""
        if row.leaving or row.expires <= now:
            return Gone(Loss.EXPIRED)
        if row.held:
            return Held(row.ticket, row.expires - now)
        row = self._stay(line, row, self.world.address(row.id), now)
        return self._waiting(line, row, now)

    def _stay(self, line: Line, row: Row, address: str | None, now: float) -> Row:
        """Renew the place of a waiter; return its new row."""
        row = row._replace(expires=now + self.patience)
        line.first = min(line.first, row.expires)
        self.world.note_expiry(row.expires)
        self.run(self.sql.renew_waiting, (line.name, row.ticket, row.expires, address))
        line.note(row)
        return row

    def _waiting(self, line: Line, row: Row, now: float) -> Waiting:
        head = line.head()
        position = 1 if head is None else row.seat - head.seat + 1
        watch = list(line.sessions) if position <= WATCH_HOLDERS else []
        ahead = line.living_before(row.ticket)
        session = ahead.session if ahead is not None else None
        if session and session != line.own and session not in watch:
            watch.append(session)
        return Waiting(row.ticket, position, self._retry_in(line, now), tuple(watch))

    def _retry_in(self, line: Line, now: float) -> float:
        if line.steps <= 0:
            return 0.0  # there are more dead claims to drop
        first = line.first
        if now < self.world.quiet:
            first = min(first, self.world.quiet)
        return max(0.0, min(ASK_AGAIN_S_MAX, first - now))

    def _gone(self, claim: Claim, ticket: int, now: float) -> Gone:
        reason = self.tomb(claim.id, now)
        if reason is None:
            reason = Loss.SESSION if 0 < ticket < self.world.born else Loss.EXPIRED
        return Gone(reason)

    def _bury(self, claim_id: str, now: float, ttl: float, reason: Loss) -> None:
        until = now + ttl + TOMB_S
        self.world.note_tomb(until)
        self._buried += 1
        if self._buried % CLEAN_EVERY == 0:
            self.run(self.sql.tombs_clean, (now,))
        self.run(self.sql.bury, (claim_id, until, reason.value))
