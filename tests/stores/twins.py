"""Random lock verbs are sent to a store and to the memory store: both must reply the same.

The test sets the store's time. The tests of a store subclass `Twins`. The subclass sends the verbs,
sets the time, and defines where the replies can differ.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from holdfast.core.model import (
    Change,
    Claim,
    Gone,
    Held,
    Kind,
    Leave,
    LineRecord,
    Refused,
    Renewal,
    Spec,
    Waiting,
)
from holdfast.stores.memory.line import Lines, Poke

KINDS = (
    (Kind.LOCK, 1, (1,)),
    (Kind.SEMAPHORE, 3, (1, 1, 2, 3)),
    (Kind.SEMAPHORE, 4, (1, 2)),
    (Kind.RWLOCK, 1 << 20, (1, 1, 1, 1 << 20)),
)


def listens(claim: Claim) -> bool:
    """Return whether the claim joins with an address, to which wake-ups are sent."""
    return claim.id > "8"


class Twins:
    """Sends the same request to both stores, and compares the two replies."""

    #: The first moment, in seconds by the store's clock.
    start = 1_000.0
    #: The maximum difference of two replies about time, in seconds.
    near = 1e-6
    #: True if the store notices the end of a claim before that claim is broken.
    notices_ends = True

    def __init__(self, seed: int, names: str = "") -> None:
        print(f"seed {seed}")
        self.dice = random.Random(seed)
        #: The beginning of all names.
        self.names = names
        self.lines = Lines()
        self.now = self.start
        self.pokes: list[Poke] = []
        self.tickets: dict[int, int] = {}
        self.known: list[tuple[Claim, int]] = []
        self.story: list[str] = []

    def ask(self, verb: str, *what: Any) -> Any:
        """Send a verb to the store, and return its reply."""
        raise NotImplementedError

    def at(self, now: float) -> float:
        """Set the store's clock, and return its time after that."""
        raise NotImplementedError

    def same_hint(self, theirs: Waiting | Refused, ours: Waiting | Refused, name: str) -> bool:
        """Return whether the time of the next request is as good as the memory store's."""
        raise NotImplementedError

    def same_pokes(self, told: str) -> None:
        """Check that the store has sent the wake-ups that the memory store would send."""

    def same(self, request: object, theirs: Any, ours: Any, name: str = "") -> None:
        """Compare two replies; tickets must agree in their order, not in their value."""
        self.story.append(f"{self.now - self.start:.3f} {request} -> {theirs}")
        told = "\n".join(["", *self.story[-30:], f"but ours: {ours}"])
        assert type(theirs) is type(ours), told
        if isinstance(theirs, Held | Waiting):
            self._pair(theirs[0], ours[0], told)
        if isinstance(theirs, Held):
            assert theirs.expires_in == pytest.approx(ours.expires_in, abs=self.near), told
        elif isinstance(theirs, Waiting):
            assert theirs.position == ours.position, told
        elif isinstance(theirs, Refused):
            assert theirs.holder == ours.holder, told
        else:
            assert theirs == ours, told
        if isinstance(theirs, Waiting | Refused):
            assert self.same_hint(theirs, ours, name), told
        self.same_pokes(told)

    def _pair(self, theirs: int, ours: int, told: str) -> None:
        known = self.tickets.setdefault(theirs, ours)
        assert known == ours, told
        order = sorted(self.tickets.items())
        assert [o for _, o in order] == sorted(o for _, o in order), told

    def spec(self) -> Spec:
        kind, capacity, weights = self.dice.choice(KINDS)
        name = f"{self.names}{kind}-{self.dice.randrange(2)}"
        ttl = self.dice.choice((0.5, 2.0, 10.0))
        owner = f"o{self.dice.randrange(1000)}"
        return Spec(name, kind, capacity, self.dice.choice(weights), ttl, owner, "note")

    def pick(self) -> tuple[Claim, int]:
        return self.dice.choice(self.known[-12:])

    def new_id(self) -> str:
        return f"{self.dice.getrandbits(128):032x}"

    def join(self) -> None:
        new = not self.known or self.dice.random() < 0.9
        spec = self.spec()
        wanted = Claim(self.new_id(), spec) if new else self.pick()[0]
        wait = self.dice.random() < 0.8
        theirs, self.pokes = self.lines.join(wanted, wait, self.now, listens(wanted) or None)
        ours = self.ask("join", wanted, wait)
        self.same(("join", wanted, wait), theirs, ours, spec.name if new else wanted.spec.name)
        if isinstance(theirs, Held | Waiting):
            self.known.append((wanted, theirs[0]))

    def drawn(self) -> tuple[Claim, int, int, float]:
        """Draw a claim, its ticket in the memory store and in the other store, and a ttl."""
        claim, ticket = self.pick()
        if self.dice.random() < 0.25:
            claim = Claim("0" * 32, claim.spec)
        hint = 0 if self.dice.random() < 0.1 else self.tickets[ticket]
        return claim, ticket, hint, self.dice.choice((0.5, 2.0, 10.0))

    def overdue(self, claim: Claim) -> bool:
        """Return whether the claim waits and has expired: a renewal may drop it, or leave it."""
        line = self.lines.lines.get(claim.spec.name)
        row = line.waiting.get(claim.id) if line else None
        return row is not None and row.expires <= self.now

    def renew(self) -> None:
        claim, ticket, hint, ttl = self.drawn()
        if self.overdue(claim):
            return
        weight = 1 if self.dice.random() < 0.15 else 0
        theirs, self.pokes = self.lines.renew(Renewal(claim, ticket, ttl, weight), self.now)
        (ours,) = self.ask("renew", [Renewal(claim, hint, ttl, weight)])
        if isinstance(theirs, Waiting) and isinstance(ours, Gone):
            theirs = ours  # the contract allows both
        self.same(("renew", claim, ticket, ttl, weight), theirs, ours, claim.spec.name)

    def turn(self) -> None:
        claim, ticket, hint, ttl = self.drawn()
        claim = claim._replace(spec=claim.spec._replace(ttl=ttl))
        theirs, self.pokes = self.lines.turn(claim, self.now)
        ours = self.ask("turn", claim, hint)
        self.same(("turn", claim, ticket, ttl), theirs, ours, claim.spec.name)

    def change(self) -> None:
        claim, ticket, hint, ttl = self.drawn()
        if self.overdue(claim):
            return
        owner, new_id = self.dice.choice(
            (("adopter", self.new_id()), ("detached", claim.id), (claim.spec.owner, ""))
        )
        claim = claim._replace(spec=claim.spec._replace(owner=owner))
        change = Change(claim, ticket, ttl, new_id, owner != "adopter")
        for _ in range(self.dice.choice((1, 2))):  # a repetition finds the new id
            theirs, self.pokes = self.lines.change(change, self.now)
            ours = self.ask("change", change._replace(ticket=hint))
            self.same(("change", claim, ticket, ttl, new_id), theirs, ours, claim.spec.name)
            if new_id and isinstance(theirs, Held):
                self.known.append((Claim(new_id, claim.spec), ticket))

    def leave(self) -> None:
        left, ticket = self.pick()
        chance = self.dice.random()
        after = self.dice.choice((0.5, 5.0)) if chance < 0.15 else 0.0
        suspect = 0.15 < chance < 0.3
        hint = 0 if self.dice.random() < 0.2 else ticket
        leave = Leave(left.spec.name, left.id, hint, after, suspect, left.spec.ttl)
        theirs, self.pokes = self.lines.leave(leave, self.now)
        ours = self.ask("leave", leave._replace(ticket=self.tickets.get(hint, 0)))
        self.same(("leave", left, hint, after, suspect), theirs, ours)

    def break_(self) -> None:
        left, ticket = self.pick()
        name = left.spec.name
        theirs, self.pokes = self.lines.break_(name, ticket, self.now)
        ours = self.ask("break_", name, self.tickets.get(ticket, 0))
        if not theirs and not self.notices_ends:
            late = {known.id for known, its in self.known if its == ticket}
            self.known = [one for one in self.known if one[0].id not in late]
        self.same(("break", name, ticket), theirs, ours)

    def resize(self) -> None:
        kind = self.dice.choice((Kind.SEMAPHORE, Kind.LOCK))
        name = f"{self.names}{kind}-{self.dice.randrange(2)}"
        capacity = self.dice.choice((2, 3, 4, 8))
        theirs, self.pokes = self.lines.resize(name, capacity, self.now)
        self.same(("resize", name, capacity), theirs, self.ask("resize", name, capacity))

    def look(self) -> None:
        prefix = self.names + self.dice.choice(("", "lock", "semaphore-1", "x"))
        exact = self.dice.random() < 0.3
        theirs, self.pokes = self.lines.inspect(prefix, self.now, exact), []
        ours = self.ask("inspect", prefix, exact)
        (told, times), (ours_told, ours_times) = (self._plain(lines) for lines in (theirs, ours))
        self.same(("inspect", prefix, exact), told, ours_told)
        assert times == pytest.approx(ours_times, abs=self.near), self.story[-1]

    def _plain(self, lines: list[LineRecord]) -> tuple[list[object], list[float]]:
        back = {ours: theirs for theirs, ours in self.tickets.items()}
        rows: list[object] = [
            (line.name, str(line.kind), line.capacity,
             [(c.owner, back.get(c.fence, c.fence), c.held, c.weight, c.position, c.meta)
              for c in line.claims])
            for line in lines
        ]  # fmt: skip
        claims = [c for line in lines for c in line.claims]
        return rows, [second for c in claims for second in (c.age, c.expires_in)]

    def step(self) -> None:
        """Send one random request after a random time."""
        self.now += self.dice.choice((0.0, 0.001, 0.01, 0.1, 0.4)) * self.dice.random()
        self.now = self.at(self.now)
        what = [self.join] * 8
        if self.known:
            what += [self.renew] * 3 + [self.turn] * 4 + [self.change] * 2 + [self.leave] * 5
            what += [self.break_, self.resize, self.look]
        self.dice.choice(what)()

    def walk(self) -> None:
        """Compare the replies of 600 steps, and check that each sort of reply was seen."""
        for _ in range(600):
            self.step()
        seen = " ".join(self.story)
        assert all(word in seen for word in ("Held(", "Waiting(", "Gone(", "-> True", "-> False"))
