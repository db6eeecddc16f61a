"""The line of claims as a plain state machine: the meaning of the verbs.

It has no clock, lock, process, input or output: the caller passes ``now``, and sends the wake-ups
that a verb returns. Every other store must answer as this one does (the differential test compares
them), and the simulator runs the real core against it. An address is an opaque object, which a join
passes in and a wake-up returns.

In the order of tickets, the holders of a name always come before its waiters. A claim is dead when
it has expired. The next verb *drops* a dead holder; a dead waiter is dropped when it becomes the
first waiter. So each verb costs O(1), whatever the length of the line, except for one scan of the
line whenever the earliest expiry in it has passed.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.model import (
    WAITERS_MAX,
    Change,
    Claim,
    ClaimRecord,
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
from ...core.policy import ASK_AGAIN_S_MAX, PATIENCE_S, TOMB_S, fits

#: A wake-up to send: (address, claim id, fence) of a claim that has just become a holder.
Poke = tuple[Any, str, int]
#: Number of tombstones at which the expired ones are first removed.
TOMBS_LOOK = 1000
_NO_TOMB = (-math.inf, Loss.EXPIRED)


@dataclass(slots=True)
class Row:
    """One claim in a line."""

    id: str
    ticket: int
    weight: int
    ttl: float
    owner: str
    meta: str
    since: float
    expires: float
    held: bool
    #: Running number of the waiter, from which positions are computed; 0 if the claim never waited.
    seat: int = 0
    address: Any = None
    #: True after a release with ``after``: the claim can't be renewed.
    leaving: bool = False


@dataclass(slots=True)
class Line:
    """One name: its capacity, its holders and its waiters, each in ticket order."""

    kind: str
    capacity: int
    former: int = 0
    used: int = 0
    #: A lower bound: no living claim of this line expires before this time.
    first: float = math.inf
    seats: int = 0
    held: OrderedDict[str, Row] = field(default_factory=OrderedDict)
    waiting: OrderedDict[str, Row] = field(default_factory=OrderedDict)

    def rows(self) -> Iterator[Row]:
        """All claims in ticket order."""
        return itertools.chain(self.held.values(), self.waiting.values())

    def empty(self) -> bool:
        """Has the line neither holders nor waiters?"""
        return not self.held and not self.waiting


class Lines:
    """All names of one store."""

    def __init__(self, first_ticket: int = 1, patience: float = PATIENCE_S) -> None:
        self.lines: dict[str, Line] = {}
        self.tombs: dict[str, tuple[float, Loss]] = {}
        #: Number of tombstones at which the expired ones are removed next.
        self._tombs_look = TOMBS_LOOK
        self.next_ticket = first_ticket
        self.patience = patience

    # -- the verbs ------------------------------------------------------------------------

    def join(
        self, claim: Claim, wait: bool, now: float, address: Any = None
    ) -> tuple[Joined, list[Poke]]:
        """See :meth:`holdfast.core.ports.Store.join`."""
        spec = claim.spec
        if claim.id in self.tombs and self.tombs[claim.id][0] > now:
            return Gone(self.tombs[claim.id][1]), []
        line, pokes = self._line(spec.name, now)
        if line is None:
            line = self.lines[spec.name] = Line(spec.kind, spec.capacity)
            return self._enter(line, claim, now, True, None), pokes
        if claim.id in line.held or claim.id in line.waiting:
            return self._again(line, claim, now), pokes
        same = line.kind == spec.kind and spec.capacity in (line.capacity, line.former)
        if not same or spec.weight > line.capacity:
            return Mismatch(line.kind, line.capacity), pokes
        if not line.waiting and fits(line.capacity, line.used, spec.weight):
            return self._enter(line, claim, now, True, None), pokes
        if not wait:
            ahead = next(line.rows())
            return Refused(self._retry_in(line, now), ahead.owner), pokes
        if len(line.waiting) >= WAITERS_MAX:
            return Full(len(line.waiting)), pokes
        return self._enter(line, claim, now, False, address), pokes

    def join_free(
        self, claims: Sequence[Claim], now: float
    ) -> tuple[list[Held] | None, list[Poke]]:
        """See :meth:`holdfast.core.ports.Store.join_free`."""
        pokes: list[Poke] = []
        for claim in claims:
            if self.tombs.get(claim.id, _NO_TOMB)[0] > now:
                return None, pokes
            line, some = self._line(claim.spec.name, now)
            pokes += some
            if line is not None:
                return None, pokes
        held = []
        for claim in claims:
            line = self.lines[claim.spec.name] = Line(claim.spec.kind, claim.spec.capacity)
            self._enter(line, claim, now, True, None)
            held.append(Held(line.held[claim.id].ticket, claim.spec.ttl))
        return held, pokes

    def renew(self, renewal: Renewal, now: float) -> tuple[Standing, list[Poke]]:
        """See :meth:`holdfast.core.ports.Store.renew`; this renews one claim of the batch."""
        name, cid = renewal.claim.spec.name, renewal.claim.id
        line, row = self._row(name, cid)
        if line is None or row is None:
            return self._gone(cid, now), []
        if row.leaving or row.expires <= now:
            return Gone(Loss.EXPIRED), self._line(name, now)[1]
        if not row.held:
            return self._waiting(line, row, now), []
        if 0 < renewal.weight < row.weight:
            line.used -= row.weight - renewal.weight
            row.weight = renewal.weight
        return self._prolong(row, name, renewal.ttl, now)

    def turn(self, claim: Claim, now: float, address: Any = None) -> tuple[Standing, list[Poke]]:
        """See :meth:`holdfast.core.ports.Store.turn`."""
        name, cid = claim.spec.name, claim.id
        line, row = self._row(name, cid)
        if line is None or row is None:
            return self._gone(cid, now), []
        if row.leaving or row.expires <= now:
            return Gone(Loss.EXPIRED), self._line(name, now)[1]
        pokes: list[Poke] = []
        if not row.held:
            row.expires = now + self.patience
            row.address = address if address is not None else row.address
            line.first = min(line.first, row.expires)
            pokes = [p for p in self._line(name, now)[1] if p[1] != cid]
            if cid not in line.held and cid not in line.waiting:
                return Gone(Loss.EXPIRED), pokes  # it weighs more than the new capacity
            if not row.held:
                return self._waiting(line, row, now), pokes
        answer, more = self._prolong(row, name, claim.spec.ttl, now)
        return answer, pokes + more

    def change(self, change: Change, now: float) -> tuple[Standing, list[Poke]]:
        """See :meth:`holdfast.core.ports.Store.change`."""
        claim, fresh = change.claim, change.new_id
        name, cid = claim.spec.name, claim.id
        line, row = self._row(name, cid)
        if line is not None and fresh in line.held:  # a repeated request
            cid, row = fresh, line.held[fresh]
        if line is None or row is None or not row.held:
            return self._gone(cid, now), []
        if row.leaving or row.expires <= now:
            return Gone(Loss.EXPIRED), self._line(name, now)[1]
        if fresh and cid != fresh and self.tombs.get(fresh, _NO_TOMB)[0] > now:
            return self._gone(fresh, now), []  # the adopting client has given up
        if fresh:
            line.held = OrderedDict((fresh if i == cid else i, one) for i, one in line.held.items())
            row.id, row.owner = fresh, claim.spec.owner
        return self._prolong(row, name, change.ttl, now)

    def _row(self, name: str, cid: str) -> tuple[Line | None, Row | None]:
        """Return the line, and the row of the claim in it, held or waiting."""
        line = self.lines.get(name)
        return line, (line.held.get(cid) or line.waiting.get(cid)) if line else None

    def _prolong(self, row: Row, name: str, ttl: float, now: float) -> tuple[Held, list[Poke]]:
        """Renew the lease of a held claim."""
        row.expires, row.ttl = max(row.expires, now + ttl), ttl
        return Held(row.ticket, ttl), self._line(name, now)[1]

    def leave(self, leave: Leave, now: float) -> tuple[bool, list[Poke]]:
        """See :meth:`holdfast.core.ports.Store.leave`."""
        if leave.suspect:
            self._bury(leave.id, now, leave.ttl, Loss.RELEASED)
        line = self.lines.get(leave.name)
        row = line.held.get(leave.id) or line.waiting.get(leave.id) if line else None
        if line is None or row is None:
            return False, []
        if leave.after > 0 and row.held and row.expires > now:
            if not row.leaving:
                row.leaving, row.expires = True, now + leave.after
                line.first = min(line.first, row.expires)
            return True, []
        return self._end(line, row, leave.name, now)

    def break_(self, name: str, ticket: int, now: float) -> tuple[bool, list[Poke]]:
        """See :meth:`holdfast.core.ports.Store.break_`."""
        line = self.lines.get(name)
        row = next((r for r in line.rows() if r.ticket == ticket), None) if line else None
        if line is None or row is None:
            return False, []
        self._bury(row.id, now, row.ttl, Loss.BROKEN)
        return self._end(line, row, name, now)

    def inspect(self, prefix: str, now: float, exact: bool = False) -> list[LineRecord]:
        """See :meth:`holdfast.core.ports.Store.inspect`."""
        found = []
        for name in sorted(n for n in self.lines if n.startswith(prefix)):
            line = self.lines[name]
            rows = [r for r in line.rows() if r.expires > now]
            if not rows or (exact and name != prefix):
                continue
            waiters = itertools.count(1)
            claims = tuple(
                ClaimRecord(
                    owner=r.owner,
                    fence=r.ticket,
                    held=r.held,
                    weight=r.weight,
                    age=now - r.since,
                    expires_in=r.expires - now,
                    position=0 if r.held else next(waiters),
                    meta=r.meta,
                    kept=r.leaving,
                )
                for r in rows
            )
            found.append(LineRecord(name, line.kind, line.capacity, claims))
        return found

    def resize(
        self, name: str, capacity: int, now: float
    ) -> tuple[int | Mismatch | None, list[Poke]]:
        """See :meth:`holdfast.core.ports.Store.resize`."""
        line, pokes = self._line(name, now)
        if line is None:
            return None, pokes
        if line.kind != Kind.SEMAPHORE:
            return Mismatch(line.kind, line.capacity), pokes
        former = line.capacity
        if capacity != former:
            line.former, line.capacity = former, capacity
        return former, pokes + self._line(name, now)[1]

    def sweep(self, now: float) -> list[Poke]:
        """Drop dead claims and grant waiters on every name, as any verb on the name would."""
        return [poke for name in list(self.lines) for poke in self._line(name, now)[1]]

    def next_expiry(self) -> float:
        """Return the earliest time at which a claim can expire, for a simulator's clock."""
        return min((line.first for line in self.lines.values()), default=math.inf)

    def mend(self) -> None:
        """Rebuild the derived state after an interruption in the middle of a verb."""
        for line in self.lines.values():
            for cid in [i for i in line.waiting if i in line.held]:
                del line.waiting[cid]
            for row in line.held.values():
                row.held = True
            line.used = sum(row.weight for row in line.held.values())
            line.first = -math.inf

    # -- the parts -------------------------------------------------------------------------

    def _line(self, name: str, now: float) -> tuple[Line | None, list[Poke]]:
        """Drop dead claims, and grant waiters that fit; return the line, or None if it's empty."""
        line = self.lines.get(name)
        if line is None:
            return None, []
        if now >= line.first:
            self._sweep(line, now)
        pokes = self._grant(line, now)
        if line.empty():
            del self.lines[name]
            return None, pokes
        return line, pokes

    def _sweep(self, line: Line, now: float) -> None:
        """Drop dead holders and find the next expiry. Costs O(n), once per expiry that passes."""
        for row in [r for r in line.held.values() if r.expires <= now]:
            self._drop(line, row)
        line.first = min((r.expires for r in line.rows() if r.expires > now), default=math.inf)

    def _grant(self, line: Line, now: float) -> list[Poke]:
        """Grant waiters from the front while they fit. A grant changes no expiry."""
        pokes: list[Poke] = []
        while line.waiting:
            row = next(iter(line.waiting.values()))
            if row.expires <= now or row.weight > line.capacity:
                del line.waiting[row.id]
                continue
            if not fits(line.capacity, line.used, row.weight):
                break
            del line.waiting[row.id]
            line.held[row.id] = row
            line.used += row.weight
            row.held, row.since = True, now
            if row.address is not None:
                pokes.append((row.address, row.id, row.ticket))
        return pokes

    def _enter(self, line: Line, claim: Claim, now: float, held: bool, address: Any) -> Joined:
        spec = claim.spec
        ticket = self.next_ticket
        self.next_ticket += 1
        lease = spec.ttl if held else self.patience
        row = Row(
            id=claim.id,
            ticket=ticket,
            weight=spec.weight,
            ttl=spec.ttl,
            owner=spec.owner,
            meta=spec.meta,
            since=now,
            expires=now + lease,
            held=held,
            address=address,
        )
        line.first = min(line.first, row.expires)
        if held:
            line.held[claim.id] = row
            line.used += row.weight
            return Held(ticket, spec.ttl)
        line.seats += 1
        row.seat = line.seats
        line.waiting[claim.id] = row
        return self._waiting(line, row, now)

    def _again(self, line: Line, claim: Claim, now: float) -> Joined:
        """Return the standing of a claim that is in the line already; renew it if it waits."""
        row = line.held.get(claim.id) or line.waiting[claim.id]
        if row.leaving or row.expires <= now:
            return Gone(Loss.EXPIRED)
        if row.held:
            return Held(row.ticket, row.expires - now)
        row.expires = now + self.patience
        return self._waiting(line, row, now)

    def _waiting(self, line: Line, row: Row, now: float) -> Waiting:
        head = next(iter(line.waiting.values()))
        return Waiting(row.ticket, row.seat - head.seat + 1, self._retry_in(line, now))

    def _retry_in(self, line: Line, now: float) -> float:
        return max(0.0, min(ASK_AGAIN_S_MAX, line.first - now))

    def _end(self, line: Line, row: Row, name: str, now: float) -> tuple[bool, list[Poke]]:
        alive = row.expires > now
        self._drop(line, row)
        return alive, self._line(name, now)[1]

    def _drop(self, line: Line, row: Row) -> None:
        if row.held:
            del line.held[row.id]
            line.used -= row.weight
        else:
            del line.waiting[row.id]

    def _gone(self, cid: str, now: float) -> Gone:
        until, reason = self.tombs.get(cid, (0.0, Loss.EXPIRED))
        return Gone(reason if until > now else Loss.EXPIRED)

    def _bury(self, cid: str, now: float, ttl: float, reason: Loss) -> None:
        if len(self.tombs) >= self._tombs_look:  # rarely, because this reads all tombstones
            self.tombs = {i: t for i, t in self.tombs.items() if t[0] > now}
            self._tombs_look = max(TOMBS_LOOK, 2 * len(self.tombs))
        self.tombs[cid] = (now + ttl + TOMB_S, reason)
