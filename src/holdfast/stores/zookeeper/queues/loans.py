"""The deliveries of this process, by take."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from ....core.policy import TOMB_S
from ....core.queue.model import Delivered, Extend, Settle, Take
from ..requests import Check, Delete, Stat
from .names import Entry
from .notes import JobNote
from .space import Space


@dataclass(slots=True, eq=False)
class Loan:
    """One delivery of ours."""

    space: Space
    take: Take
    entry: Entry
    #: The job's node, and what it says.
    first: str
    note: JobNote
    seq: int
    attempt: int
    fence: int
    #: How often its entry was written to, this take included: a client that takes it later writes
    #: again.
    version: int
    age: float
    #: When it was taken, in milliseconds by the leader's clock.
    taken: int
    #: That of the job's node.
    stat: Stat
    session: int
    #: When we end it, as nobody has renewed it.
    expires: float
    dead: bool = False

    @property
    def mark(self) -> str:
        """Where its mark is."""
        return self.space.place.at("taken", self.entry.node)

    def ours(self) -> list[Check | Delete]:
        """What deletes its mark, if it is still ours and not that of a later take."""
        return [Check(self.space.place.entry(self.entry), self.version), Delete(self.mark)]

    @property
    def job(self) -> str:
        """Where its job is."""
        return self.space.place.job(self.entry.group, self.first)

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from the others of its take."""
        return (self.note.group, self.seq)

    def delivered(self) -> Delivered:
        """As the worker sees it."""
        note = self.note
        what = (self.seq, note.id, note.group, note.payload)
        return Delivered(*what, self.attempt, self.fence, self.age)


@dataclass(slots=True, eq=False)
class Taker:
    """One take of ours."""

    take: Take
    loans: dict[tuple[str, int], Loan] = field(default_factory=dict)
    #: Entries whose mark was asked for, and of which it isn't known whether we have it.
    doubts: dict[str, Entry] = field(default_factory=dict)
    #: Entries that it has tried, in the request that is under way.
    tried: set[str] = field(default_factory=set)
    #: It has got something, so it takes no more.
    served: bool = False
    #: It has ended: a copy of it gets nothing.
    buried: bool = False

    def release(self, busy: dict[str, str]) -> None:
        """The request has ended: other takes of this process can try what it did not get."""
        kept = {one.entry.node for one in self.loans.values()} | self.doubts.keys()
        for node in self.tried - kept:
            busy.pop(node, None)
        self.tried = set()


class Loans:
    """All takes of this process that may still be asked about."""

    def __init__(self) -> None:
        self.takers: dict[str, Taker] = {}
        self.doomed: dict[str, Loan] = {}
        #: The takes that were given a tombstone, and until when each has it; oldest first.
        self._fading: deque[tuple[float, Taker]] = deque()

    def taker(self, take: Take) -> Taker:
        """What is known of this take."""
        return self.takers.setdefault(take.id, Taker(take))

    def add(self, loan: Loan) -> None:
        """It is ours now."""
        taker = self.taker(loan.take)
        taker.loans[loan.key] = loan
        taker.served = True

    def find(self, asked: Settle | Extend) -> Loan | None:
        """The delivery that this is about, if its take still has it."""
        taker = self.takers.get(asked.take)
        return taker.loans.get((asked.group, asked.seq)) if taker is not None else None

    def end(self, loan: Loan) -> None:
        """It is settled, or lost."""
        taker = self.takers.get(loan.take.id)
        if taker is not None:
            taker.loans.pop(loan.key, None)
            self._forget(taker)
        loan.space.busy.pop(loan.entry.node, None)

    def bury(self, take: Take, now: float) -> Taker:
        """It has ended: a copy of it that comes late gets nothing."""
        taker = self.taker(take)
        taker.buried = True
        while self._fading and self._fading[0][0] <= now:
            try:
                former = self._fading.popleft()[1]
            except IndexError:  # another thread was faster
                break
            former.buried = False
            self._forget(former)
        self._fading.append((now + take.ttl + TOMB_S, taker))
        return taker

    def _forget(self, taker: Taker) -> None:
        if not (taker.loans or taker.doubts or taker.buried):
            self.takers.pop(taker.take.id, None)

    def idle(self, take: Take) -> None:
        """It waits no more: it is forgotten if it has nothing."""
        taker = self.takers.get(take.id)
        if taker is not None:
            self._forget(taker)

    def alive(self) -> Iterator[Loan]:
        """All deliveries to this process."""
        for taker in list(self.takers.values()):
            yield from list(taker.loans.values())

    def next_due(self) -> float:
        """When the next of them ends by itself; ``inf`` if none does."""
        return min((one.expires for one in self.alive() if not one.dead), default=math.inf)
