"""Sends each verb to a store and to a model of it, and compares the two answers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ...core.model import (
    Change,
    Gone,
    Granted,
    Held,
    Leave,
    LineRecord,
    Loss,
    Refused,
    Renewal,
    Waiting,
)
from ...core.policy import ASK_AGAIN_S_MIN, NAP_S_MAX
from ...core.ports import Runtime, Store
from ...errors import ConfigError, NotHeld, StoreUnavailable
from ...stores.memory.line import Lines, Poke, Row
from .known import Difference, Known

#: Minimum seconds between a verb and the expiry of a claim, in addition to `Pair._blur`. If an
#: expiry is nearer, it is unclear whether the store handled the verb before or after the expiry.
GUARD_S = 0.005
#: Maximum seconds of a verb; after a slower verb, all following answers are unclear.
SLOW_S = 0.1
#: The time-out of each verb, in seconds.
WITHIN_S = 5.0
#: Maximum difference in seconds between a duration of the store and that duration of the model, in
#: addition to `Pair._blur`.
FINE_S = 0.002


@dataclass
class Pair:
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

    # -- the verbs -------------------------------------------------------------------------

    async def join(self, known: Known, wait: bool) -> bool:
        """Enter the line of claims; return True if the claim is in the line now."""

        async def ask() -> Any:
            return await self.store.join(known.claim, wait, WITHIN_S)

        theirs, ours = await self._both(
            f"join({known.claim!r}, wait={wait})",
            ask,
            lambda now: self._granting(self.lines.join(known.claim, wait, now, "anywhere")),
        )
        self._compare(known, theirs, ours)
        return isinstance(ours, Held | Waiting)

    async def renew(self, pairs: list[tuple[Known, Renewal]]) -> None:
        """Renew a batch, of claims that are held and of claims that wait.

        The tickets in the renewals are the model's; the store gets its own tickets instead.
        """
        renewals = [renewal._replace(ticket=known.theirs) for known, renewal in pairs]

        async def ask() -> list[Any]:
            answers = []
            for start in range(0, len(renewals), self.store.batch_max):
                part = renewals[start : start + self.store.batch_max]
                answers += await self.store.renew(part, WITHIN_S)
            return answers

        theirs, ours = await self._both(
            f"renew({renewals!r})",
            ask,
            lambda now: [self._granting(self.lines.renew(one, now)) for _, one in pairs],
        )
        for (known, _), one, other in zip(pairs, theirs, ours, strict=True):
            if not (isinstance(one, Gone) and isinstance(other, Waiting)):
                self._compare_waiter(known, one, other)

    async def turn(self, known: Known) -> None:
        """Ask for the turn of a claim."""

        async def ask() -> Any:
            return await self.store.turn(known.claim, known.theirs, WITHIN_S)

        theirs, ours = await self._both(
            f"turn({known.claim!r}, ticket={known.theirs})",
            ask,
            lambda now: self._granting(self.lines.turn(known.claim, now)),
        )
        self._compare(known, theirs, ours)

    async def change(self, known: Known, change: Change) -> Any:
        """Change the id or the owner of a claim; return the model's answer."""
        mine = change._replace(ticket=known.theirs)

        async def ask() -> Any:
            return await self.store.change(mine, WITHIN_S)

        theirs, ours = await self._both(
            f"change({mine!r})",
            ask,
            lambda now: self._granting(self.lines.change(change, now)),
        )
        self._compare_waiter(known, theirs, ours)
        return ours

    def _compare_waiter(self, known: Known, theirs: Any, ours: Any) -> None:
        """Compare the answers about a claim that this client believes to hold or to wait for.

        In the model, a request of another client can grant a waiter. A store may grant the waiter
        only at the waiter's own next `turn`; or earlier than the model, in a `join_free`.
        """
        if known.waiting is not None:
            later = isinstance(ours, Held) and isinstance(theirs, Gone | Waiting)
            sooner = isinstance(theirs, Held) and known.claim.spec.name in self._sooner
            self.unclear = self.unclear or later or (sooner and not isinstance(ours, Held))
        self._compare(known, theirs, ours)

    async def leave(self, known: Known, cid: str, **options: Any) -> None:
        """Leave by the id ``cid``."""
        spec = known.claim.spec
        if spec.name in self._sooner and self._has_dead(spec.name):
            # The store can have granted this claim, and the model not yet. Only a held claim may
            # have an `after`, so none is sent.
            options["after"] = 0.0
        leave = Leave(spec.name, cid, known.theirs, ttl=spec.ttl, **options)

        async def ask() -> bool:
            try:
                return await self.store.leave(leave, WITHIN_S)
            except (ConfigError, NotHeld):
                return False  # a store may refuse an empty id

        theirs, ours = await self._both(
            f"leave({leave!r}, suspect={leave.suspect})",
            ask,
            lambda now: self._granting(self.lines.leave(leave._replace(ticket=known.ours), now)),
        )
        if theirs is not ours:
            self._differ(theirs, ours)
        if leave.suspect and leave.after:
            self._unsure.add(known.claim.id)

    async def break_(self, known: Known) -> None:
        """Break the claim by its ticket."""
        name = known.claim.spec.name

        async def ask() -> bool:
            return await self.store.break_(name, known.theirs, WITHIN_S)

        theirs, ours = await self._both(
            f"break_({known.claim!r}, ticket={known.theirs})",
            ask,
            lambda now: self._granting(self.lines.break_(name, known.ours, now)),
        )
        if theirs is not ours:
            self._differ(theirs, ours)
        if not ours:
            self._unsure.add(known.claim.id)

    async def join_free(self, group: list[Known]) -> bool:
        """Enter several empty lines; return True if all claims were granted.

        The store may answer None even if the model would grant. Then the model isn't asked, and no
        claim may be in a line; later answers check that. But the store can have removed expired
        claims of these names, and granted waiters in their place.
        """
        claims = [known.claim for known in group]
        said: list[Any] = []

        async def ask() -> Any:
            said.append(await self.store.join_free(claims, WITHIN_S))
            return said[0]

        def model(now: float) -> Any:
            return None if said[0] is None else self._granting(self.lines.join_free(claims, now))

        theirs, ours = await self._both(f"join_free({claims!r})", ask, model)
        if (theirs is None) is not (ours is None):
            self._differ(theirs, ours)
        elif ours is None:
            names = {claim.spec.name for claim in claims}
            self._sooner |= {one for one in names if self._has_dead(one)}
        else:
            self.answers["Together"] += 1
            for known, one, other in zip(group, theirs, ours, strict=True):
                self._compare(known, one, other)
        return ours is not None

    async def leave_all(self, group: list[Known], suspect: bool) -> None:
        """Withdraw or release several claims together, by their ids."""
        leaves = [
            Leave(one.claim.spec.name, one.claim.id, one.theirs, 0.0, suspect, one.claim.spec.ttl)
            for one in group
        ]

        async def ask() -> Any:
            return await self.store.leave_all(leaves, WITHIN_S)

        theirs, ours = await self._both(
            f"leave_all({leaves!r}, suspect={suspect})",
            ask,
            lambda now: [self._granting(self.lines.leave(leave, now)) for leave in leaves],
        )
        if theirs != ours:
            self._differ(theirs, ours)

    async def wait(self, known: Known) -> None:
        """Wait for a wake-up for a short time. A wake-up may be lost or late, but not wrong."""
        if known.waiting is None:
            return
        self._note(f"wait({known.claim!r})")
        push = await self.store.wait(known.claim, known.waiting, ASK_AGAIN_S_MIN)
        if isinstance(push, Granted):
            self.answers["Granted"] += 1
            name = known.claim.spec.name
            granted = {self._tickets[name][one] for one in self._granted[known.claim.id]}
            if push.fence not in granted and name not in self._sooner:
                self._differ(push, f"never granted this fence; the ticket is {known.theirs}")

    async def inspect(self, prefix: str, exact: bool) -> None:
        """Inspect the lines."""

        async def ask() -> list[LineRecord]:
            return await self.store.inspect(prefix, WITHIN_S, exact)

        theirs, ours = await self._both(
            f"inspect({prefix!r}, exact={exact})",
            ask,
            lambda now: self.lines.inspect(prefix, now, exact),
        )
        if [self._plain(line) for line in theirs] != [self._plain(line, True) for line in ours]:
            self._differ(theirs, ours)
        for line, model in zip(theirs, ours, strict=False):
            for one, other in zip(line.claims, model.claims, strict=False):
                apart = other.expires_in - one.expires_in
                if line.name not in self._sooner:
                    apart = abs(apart) + abs(one.age - other.age)
                if abs(apart) > 2 * self._blur + FINE_S:
                    self._apart(line.name, apart, one, other)

    async def resize(self, name: str, capacity: int) -> None:
        """Change a capacity."""

        async def ask() -> Any:
            return await self.store.resize(name, capacity, WITHIN_S)

        theirs, ours = await self._both(
            f"resize({name!r}, {capacity})",
            ask,
            lambda now: self._granting(self.lines.resize(name, capacity, now)),
        )
        if theirs != ours:
            self._differ(theirs, ours)

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
        guard = GUARD_S + self._blur
        if now - sent > SLOW_S or any(sent - guard < e < now + guard for e in self._expiries()):
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
            guard = 2 * GUARD_S + self._blur
            near = [one for one in self._expiries() if abs(one - now) < guard]
            if not near:
                return
            await self.runtime.sleep(max(near) - now + guard)

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
