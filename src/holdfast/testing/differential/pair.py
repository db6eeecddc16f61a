"""Sends each verb to a store and to a model of it, and compares the two answers."""

from __future__ import annotations

from typing import Any

from ...core.model import (
    Change,
    Gone,
    Granted,
    Held,
    Leave,
    LineRecord,
    Renewal,
    Waiting,
)
from ...core.policy import ASK_AGAIN_S_MIN
from ...errors import ConfigError, NotHeld
from .answers import FINE_S, WITHIN_S, Answers
from .known import Known


class Pair(Answers):
    """A store and its model, which get the same verbs."""

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
