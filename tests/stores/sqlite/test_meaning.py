"""The verbs mean what the memory store's mean: random sequences, the same answers from both."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.model import (
    Claim,
    Gone,
    Held,
    Keep,
    Kind,
    Leave,
    LineRecord,
    Refused,
    Spec,
    Waiting,
)
from holdfast.stores.memory.line import Lines
from holdfast.stores.sqlite.blocking import entry, way
from tests.stores.sqlite.desk import Desk, run
from tests.torture.scale import seed_of

SEED = seed_of("lines, as in memory")
START = 1_000.0
KINDS = (
    (Kind.LOCK, 1, (1,)),
    (Kind.SEMAPHORE, 3, (1, 1, 2, 3)),
    (Kind.SEMAPHORE, 4, (1, 2)),
    (Kind.RWLOCK, 1 << 20, (1, 1, 1, 1 << 20)),
)


class Twins:
    """The same request to both stores, and one answer, or a complaint."""

    def __init__(self, desk: Desk, dice: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.desk = desk
        self.dice = dice
        self.lines = Lines()
        self.now = START
        self.tickets: dict[int, int] = {}
        self.known: list[tuple[Claim, int]] = []
        self.story: list[str] = []
        for module in (entry, way):
            monkeypatch.setattr(module, "boottime", lambda: self.now)

    def same(self, request: object, theirs: Any, ours: Any) -> None:
        """Compare two answers; tickets agree in their order, not in their value."""
        self.story.append(f"{self.now - START:.3f} {request} -> {theirs}")
        told = "\n".join(["", *self.story[-30:], f"but ours: {ours}"])
        assert type(theirs) is type(ours), told
        if isinstance(theirs, Held | Waiting):
            self._pair(theirs[0], ours[0], told)
        if isinstance(theirs, Held):
            assert theirs.expires_in == pytest.approx(ours.expires_in), told
        elif isinstance(theirs, Waiting):
            assert theirs.position == ours.position, told
        elif isinstance(theirs, Refused):
            assert theirs.holder == ours.holder, told
        else:
            assert theirs == ours, told
        if isinstance(theirs, Waiting | Refused):
            # Both are lower bounds of the same expiry; ours may be the better one.
            assert theirs.retry_in - 1e-6 <= ours.retry_in <= 1.0, told

    def _pair(self, theirs: int, ours: int, told: str) -> None:
        known = self.tickets.setdefault(theirs, ours)
        assert known == ours, told
        order = sorted(self.tickets.items())
        assert [o for _, o in order] == sorted(o for _, o in order), told

    def spec(self) -> Spec:
        kind, capacity, weights = self.dice.choice(KINDS)
        name = f"{kind}-{self.dice.randrange(2)}"
        ttl = self.dice.choice((0.5, 2.0, 10.0))
        owner = f"o{self.dice.randrange(1000)}"
        return Spec(name, kind, capacity, self.dice.choice(weights), ttl, owner, "note")

    def pick(self) -> tuple[Claim, int]:
        return self.dice.choice(self.known[-12:])

    def join(self) -> None:
        new = not self.known or self.dice.random() < 0.9
        spec = self.spec()
        wanted = Claim(f"{self.dice.getrandbits(128):032x}", spec) if new else self.pick()[0]
        wait = self.dice.random() < 0.8
        theirs, _ = self.lines.join(wanted, wait, self.now, object())
        self.same(("join", wanted, wait), theirs, self.desk.join(wanted, wait))
        if isinstance(theirs, Held | Waiting):
            self.known.append((wanted, theirs[0]))

    def keep(self) -> None:
        kept, ticket = self.pick()
        other: dict[str, Any] = {}
        chance = self.dice.random()
        if chance < 0.1:
            other["weight"] = 1
        elif chance < 0.2:
            other["new_id"] = f"{self.dice.getrandbits(128):032x}"
            spec = kept.spec._replace(owner="adopter")
            kept = Claim(kept.id, spec)
        elif chance < 0.25:
            other.update(detach=True, new_id=kept.id)
            kept = Claim(kept.id, kept.spec._replace(owner="detached"))
        elif chance < 0.45:
            kept = Claim("0" * 32, kept.spec)
        ttl = self.dice.choice((0.5, 2.0, 10.0))
        theirs, _ = self.lines.keep(Keep(kept, ticket, ttl, **other), self.now)
        hint = 0 if self.dice.random() < 0.1 else self.tickets[ticket]
        (ours,) = self.desk.keep_all([Keep(kept, hint, ttl, **other)])
        self.same(("keep", kept, ticket, ttl, other), theirs, ours)
        if "new_id" in other and isinstance(theirs, Held):
            self.known.append((Claim(other["new_id"], kept.spec), ticket))

    def leave(self) -> None:
        left, ticket = self.pick()
        chance = self.dice.random()
        after = self.dice.choice((0.5, 5.0)) if chance < 0.15 else 0.0
        suspect = 0.15 < chance < 0.3
        by = "" if 0.3 < chance < 0.4 else left.id
        hint = 0 if by and self.dice.random() < 0.2 else ticket
        ours_hint = self.tickets.get(hint, 0)
        theirs, _ = self.lines.leave(
            Leave(left.spec.name, by, hint, after, suspect, left.spec.ttl), self.now
        )
        leave = Leave(left.spec.name, by, ours_hint, after, suspect, left.spec.ttl)
        self.same(
            ("leave", left, hint, after, suspect), theirs, run(self.desk.store.leave(leave, 9))
        )

    def resize(self) -> None:
        name = f"{self.dice.choice((Kind.SEMAPHORE, Kind.LOCK))}-{self.dice.randrange(2)}"
        capacity = self.dice.choice((2, 3, 4, 8))
        theirs, _ = self.lines.resize(name, capacity, self.now)
        ours = run(self.desk.store.resize(name, capacity, 9))
        self.same(("resize", name, capacity), theirs, ours)

    def look(self) -> None:
        prefix = self.dice.choice(("", "lock", "semaphore-1", "x"))
        exact = self.dice.random() < 0.3
        theirs = self.lines.inspect(prefix, self.now, exact)
        ours = run(self.desk.store.inspect(prefix, 9, exact))
        self.same(
            ("inspect", prefix, exact), *([self._plain(r) for r in t] for t in (theirs, ours))
        )

    def _plain(self, line: LineRecord) -> object:
        back = {ours: theirs for theirs, ours in self.tickets.items()}
        rows = [
            (c.owner, back.get(c.fence, c.fence), c.held, c.weight, c.position, c.meta,
             round(c.age, 6), round(c.expires_in, 6))
            for c in line.claims
        ]  # fmt: skip
        return line.name, str(line.kind), line.capacity, rows

    def step(self) -> None:
        """One random request, or some time."""
        self.now += self.dice.choice((0.0, 0.001, 0.01, 0.1, 0.4)) * self.dice.random()
        what = [self.join] * 8
        if self.known:
            what += [self.keep] * 6 + [self.leave] * 6 + [self.resize, self.look]
        self.dice.choice(what)()


@pytest.mark.usual(8)
@pytest.mark.parametrize("turn", range(20))
def test_random_verbs_are_answered_as_the_memory_store_answers_them(
    turn: int, desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given both stores, one clock, and one seed for all that happens
    seed = SEED + turn
    print(f"seed {seed}")
    twins = Twins(desk(), random.Random(seed), monkeypatch)
    # When a few hundred requests are sent to both
    for _ in range(400):
        twins.step()
    # Then every answer was the same, and something of each sort was seen
    seen = " ".join(twins.story)
    assert all(word in seen for word in ("Held(", "Waiting(", "Gone(", "-> True", "-> False"))


def test_a_batch_answers_each_claim_by_itself(desk: Callable[..., Desk]) -> None:
    # Given a held claim, one that waits, one unknown, and one that no database can take in
    here = desk()
    spec = Spec("a", Kind.LOCK, 1, 1, 30.0, "me")
    held, waits, never = (Claim(c * 32, spec) for c in "123")
    broken = Claim("4" * 32, spec._replace(name="\ud800"))
    first, second = here.join(held), here.join(waits)
    assert isinstance(first, Held)
    assert isinstance(second, Waiting)
    # When they are kept in one batch
    answers = here.keep_all(
        [
            Keep(broken, 7, 30.0),
            Keep(held, first.fence, 30.0),
            Keep(never, 9, 30.0),
            Keep(waits, second.ticket, 30.0),
        ]
    )
    # Then each has its own answer
    assert isinstance(answers[0], Exception)
    assert isinstance(answers[1], Held)
    assert isinstance(answers[2], Gone)
    assert isinstance(answers[3], Waiting)
