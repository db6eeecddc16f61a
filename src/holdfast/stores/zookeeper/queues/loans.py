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
    """One delivery to this process."""

    space: Space
    take: Take
    entry: Entry
    #: The job's node, and its content.
    first: str
    note: JobNote
    seq: int
    attempt: int
    fence: int
    #: The version of the entry after this take; each later take raises the version.
    version: int
    #: Seconds from the acceptance of the job to the take.
    age: float
    #: The time of the take, in milliseconds by the leader's clock.
    taken: int
    #: The `Stat` of the job's node.
    stat: Stat
    session: int
    #: When this process ends the delivery if it isn't renewed, by the local clock.
    expires: float
    dead: bool = False

    @property
    def mark(self) -> str:
        """The path of the delivery's mark."""
        return self.space.place.at("taken", self.entry.node)

    def ours(self) -> list[Check | Delete]:
        """Return the parts that delete the mark. They fail if the mark belongs to a later take."""
        return [Check(self.space.place.entry(self.entry), self.version), Delete(self.mark)]

    @property
    def job(self) -> str:
        """The path of the delivered job."""
        return self.space.place.job(self.entry.group, self.first)

    @property
    def key(self) -> tuple[str, int]:
        """The key of this delivery within its take."""
        return (self.note.group, self.seq)

    def delivered(self) -> Delivered:
        """Return the delivery for the worker."""
        note = self.note
        what = (self.seq, note.id, note.group, note.payload)
        return Delivered(*what, self.attempt, self.fence, self.age)


@dataclass(slots=True, eq=False)
class Taker:
    """One take of this process."""

    take: Take
    loans: dict[tuple[str, int], Loan] = field(default_factory=dict)
    #: Entries whose mark was requested, but without an answer so far; by node.
    doubts: dict[str, Entry] = field(default_factory=dict)
    #: Entries that the current request tries.
    tried: set[str] = field(default_factory=set)
    #: True if the take got a delivery. The take then requests no more deliveries.
    served: bool = False
    #: True if the take has ended and has a tombstone: a late copy of the take gets nothing.
    buried: bool = False

    def release(self, busy: dict[str, str]) -> None:
        """After a request, let our other takes try the entries that this take didn't get."""
        kept = {one.entry.node for one in self.loans.values()} | self.doubts.keys()
        for node in self.tried - kept:
            busy.pop(node, None)
        self.tried = set()


class Loans:
    """All takes of this process that later requests may refer to."""

    def __init__(self) -> None:
        self.takers: dict[str, Taker] = {}
        #: Expired deliveries whose marks must be deleted, by the path of the mark.
        self.doomed: dict[str, Loan] = {}
        #: Pairs, oldest first: the time at which a tombstone expires, and its take.
        self._fading: deque[tuple[float, Taker]] = deque()

    def taker(self, take: Take) -> Taker:
        """Return the record of this take; make one if there is none."""
        return self.takers.setdefault(take.id, Taker(take))

    def add(self, loan: Loan) -> None:
        """Record a delivery to this process."""
        taker = self.taker(loan.take)
        taker.loans[loan.key] = loan
        taker.served = True

    def find(self, asked: Settle | Extend) -> Loan | None:
        """Return the delivery that this request names; None if its take doesn't have it."""
        taker = self.takers.get(asked.take)
        return taker.loans.get((asked.group, asked.seq)) if taker is not None else None

    def end(self, loan: Loan) -> None:
        """Forget a delivery that is settled or lost."""
        taker = self.takers.get(loan.take.id)
        if taker is not None:
            taker.loans.pop(loan.key, None)
            self._forget(taker)
        loan.space.busy.pop(loan.entry.node, None)

    def bury(self, take: Take, now: float) -> Taker:
        """Set a tombstone for an ended take, so that a late copy of the take gets nothing."""
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
        """Forget a take that no longer waits, if it has no delivery."""
        taker = self.takers.get(take.id)
        if taker is not None:
            self._forget(taker)

    def alive(self) -> Iterator[Loan]:
        """Yield all deliveries to this process."""
        for taker in list(self.takers.values()):
            yield from list(taker.loans.values())

    def next_due(self) -> float:
        """Return when the next delivery expires; ``inf`` if none does."""
        return min((one.expires for one in self.alive() if not one.dead), default=math.inf)
