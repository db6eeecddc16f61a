"""Compares the answers of a store and of its model to the same verb."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ...core.model import (
    Gone,
    Held,
    LineRecord,
    Loss,
    Refused,
    Waiting,
)
from ...core.policy import NAP_S_MAX
from ...core.ports import Runtime, Store
from ...errors import StoreUnavailable
from ...stores.memory.line import Lines, Poke, Row
from .known import Difference, Known

#: Minimum seconds between a verb and the expiry of a claim, in addition to `Answers._blur`. If an
#: expiry is nearer, it is unclear whether the store handled the verb before or after the expiry.
MARGIN_S = 0.005
#: Maximum seconds of a verb; after a slower verb, all following answers are unclear.
SLOW_S = 0.1
#: The time-out of each verb, in seconds.
WITHIN_S = 5.0
#: Maximum difference in seconds between a duration of the store and that duration of the model, in
#: addition to `Answers._blur`.
FINE_S = 0.002


@dataclass
class Answers:
    """A store and its model, which get the same verbs."""

    store: Store
    runtime: Runtime
    seed: int
    #: All names begin with this, so that names of other clients are not compared.
    start_of_names: str
    #: True after a moment when it was unknown which answer is right, for instance because the
    #: machine was too slow. Differences aren't reported after that.
    unclear: bool = False
    verbs: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.lines = Lines(patience=self.store.patience)
        #: For each name: a ticket of the model -> the store's ticket of the same claim.
        self._tickets: dict[str, dict[int, int]] = {}
        #: The tickets that the model granted to waiters, by the id of the claim.
        self._granted: dict[str, set[int]] = defaultdict(set)
        #: Names whose waiters the store can have granted earlier than the model did: in a
        #: `join_free` to which the store replied None.
        self._sooner: set[str] = set()
        #: The ids of claims that have two right reasons for `Gone.reason`. The reason depends on
        #: the time at which the store removes expired claims.
        self._unsure: set[str] = set()
        self._story: deque[str] = deque(maxlen=15)
        #: The longest time that a verb took, in seconds. Store and model can handle the same verb
        #: at times that differ by this much.
        self._blur = 0.0
        #: The time of the last answer of the store.
        self._now = 0.0

    # -- one verb, sent to both ------------------------------------------------------------

    async def _both(
        self, what: str, ask: Callable[[], Awaitable[Any]], model: Callable[[float], Any]
    ) -> tuple[Any, Any]:
        """Send one verb to the store, then to the model; return both answers."""
        await self._quiet()
        self._note(what)
        sent = self.runtime.now()
        try:
            theirs = await ask()
        except StoreUnavailable as failure:
            raise AssertionError(f"{self._where()}\n  it did not answer: {failure}") from failure
        now = self.runtime.now()
        margin = MARGIN_S + self._blur
        if now - sent > SLOW_S or any(sent - margin < e < now + margin for e in self._expiries()):
            self.unclear = True
        self._blur = max(self._blur, now - sent)
        self._now = now
        return theirs, model(now)

    def _granting(self, answer: tuple[Any, list[Poke]]) -> Any:
        for _, cid, ticket in answer[1]:
            self._granted[cid].add(ticket)
        return answer[0]

    async def _quiet(self) -> None:
        """Wait until no claim or tombstone is about to expire."""
        while True:
            now = self.runtime.now()
            margin = 2 * MARGIN_S + self._blur
            near = [one for one in self._expiries() if abs(one - now) < margin]
            if not near:
                return
            await self.runtime.sleep(max(near) - now + margin)

    def _expiries(self) -> list[float]:
        rows = [row.expires for line in self.lines.lines.values() for row in line.rows()]
        return rows + [until for until, _ in self.lines.tombs.values()]

    # -- judging ---------------------------------------------------------------------------

    def _compare(self, known: Known, theirs: Any, ours: Any) -> None:
        self.answers[type(ours).__name__] += 1
        if type(theirs) is not type(ours):
            self._differ(theirs, ours)
        elif isinstance(ours, Held):
            known.waiting = None
            self._ticket(known, theirs.fence, ours.fence, theirs)
            apart = ours.expires_in - theirs.expires_in
            if abs(apart) > self._blur + FINE_S:
                self._apart(known.claim.spec.name, apart, theirs, ours)
        elif isinstance(ours, Waiting):
            known.waiting = theirs
            self._ticket(known, theirs.ticket, ours.ticket, theirs)
            self._retry(known.claim.spec.name, theirs, ours)
            if not self._ahead(known) < theirs.position <= ours.position:
                self._differ(theirs, ours)
        elif isinstance(ours, Refused):
            self._retry(known.claim.spec.name, theirs, ours)
            if theirs.holder not in {row.owner for row in self._rows(known.claim.spec.name)}:
                self._differ(theirs, ours)
        elif theirs != ours and not self._either(known, theirs, ours):
            self._differ(theirs, ours)
        elif isinstance(ours, Gone):
            known.waiting = None

    def _apart(self, name: str, apart: float, theirs: object, ours: object) -> None:
        """Report that the store's lease ends ``apart`` seconds earlier than the model's.

        A difference can be right after a turn, if the store granted the claim earlier than the
        model. The model grants the claim in this turn, after the model has renewed the waiter TTL,
        and a turn never shortens a lease. The store doesn't renew the waiter TTL of a holder. So
        the store's lease can end earlier, by up to the waiter TTL.
        """
        if name in self._sooner and 0.0 < apart <= self.store.patience:
            self.unclear = True
        self._differ(theirs, ours)

    def _either(self, known: Known, theirs: Any, ours: Any) -> bool:
        """Return True if both reasons are right.

        Two different reasons are right if the claim had expired before it was broken or released.
        The reason then depends on the time at which the store removes expired claims.
        """
        reasons = {one.reason for one in (theirs, ours) if isinstance(one, Gone)}
        return (
            len(reasons) == 2
            and reasons <= {Loss.EXPIRED, Loss.BROKEN, Loss.RELEASED}
            and known.claim.id in self._unsure
        )

    def _ticket(self, known: Known, theirs: int, ours: int, answer: Any) -> None:
        """Check that a claim keeps its ticket, and that a new ticket is greater than all before."""
        tickets = self._tickets.setdefault(known.claim.spec.name, {})
        if ours not in tickets:
            if tickets and theirs <= max(tickets.values()):
                self._differ(answer, f"a ticket greater than {max(tickets.values())}")
            tickets[ours] = theirs
        elif tickets[ours] != theirs:
            self._differ(answer, f"the ticket {tickets[ours]}")
        known.theirs, known.ours = theirs, ours

    def _retry(self, name: str, theirs: Any, ours: Any) -> None:
        """Check that ``retry_in`` is not later than the next expiry, and at most `NAP_S_MAX`."""
        now = self._now
        alive = (row.expires - now for row in self._rows(name) if row.expires > now)
        latest = min(NAP_S_MAX, min(alive, default=math.inf)) + self._blur + FINE_S
        if not 0.0 <= theirs.retry_in <= latest:
            self._differ(theirs, ours)

    def _plain(self, line: LineRecord, own: bool = False) -> LineRecord:
        """Return a record without its times.

        ``own``: the record is the model's; replace its tickets by those of the store."""
        tickets = self._tickets.get(line.name, {})
        claims = tuple(
            one._replace(age=0.0, expires_in=0.0, fence=tickets[one.fence] if own else one.fence)
            for one in line.claims
        )
        return line._replace(claims=claims)

    def _rows(self, name: str) -> list[Row]:
        line = self.lines.lines.get(name)
        return list(line.rows()) if line else []

    def _has_dead(self, name: str) -> bool:
        return any(row.expires <= self._now for row in self._rows(name))

    def _ahead(self, known: Known) -> int:
        rows = self._rows(known.claim.spec.name)
        return sum(row.ticket < known.ours and not row.held for row in rows)

    def _differ(self, theirs: object, ours: object) -> None:
        if not self.unclear:
            raise Difference(f"{self._where()}\n  the store {theirs}\n  the model {ours}")

    def _where(self) -> str:
        story = "\n    ".join(self._story)
        return f"{self.store.label}, seed={self.seed}, the last verbs:\n    {story}"

    def _note(self, what: str) -> None:
        self.verbs[what.partition("(")[0]] += 1
        self._story.append(what)
