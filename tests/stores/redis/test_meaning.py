"""The verbs mean what the memory store's mean: random sequences, the same answers from both.

Time is the test's (see `verbs.Verbs`), so leases end without anybody waiting for it.
"""

from __future__ import annotations

import random
import secrets
from typing import Any

import pytest

from holdfast.core.model import (
    Claim,
    Held,
    Keep,
    Kind,
    Leave,
    LineRecord,
    Refused,
    Spec,
    Waiting,
)
from holdfast.stores.memory.line import Lines, Poke
from holdfast.stores.redis import replies
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program
from tests.stores.redis.verbs import TAG, Verbs, permit
from tests.torture.scale import times

SEED = random.SystemRandom().randrange(1 << 32)
CHANNEL = b"pokes-of-the-test"
START = 1_700_000_000.0
KINDS = (
    (Kind.LOCK, 1, (1,)),
    (Kind.SEMAPHORE, 3, (1, 1, 2, 3)),
    (Kind.SEMAPHORE, 4, (1, 2)),
    (Kind.RWLOCK, 1 << 20, (1, 1, 1, 1 << 20)),
)


class Twins:
    """The same request to both stores, and one answer, or a complaint."""

    def __init__(self, verbs: Verbs, dice: random.Random) -> None:
        self.verbs = verbs
        self.dice = dice
        self.lines = Lines()
        self.pushes = verbs.client.pubsub()
        self.pushes.subscribe(CHANNEL)
        self.pushes.get_message(timeout=9)
        self.now = START
        self.run = f"run-{dice.getrandbits(64):x}-"
        self.pokes: list[Poke] = []
        self.tag = b""
        self.tickets: dict[int, int] = {}
        self.known: list[tuple[Claim, int]] = []
        self.story: list[str] = []

    def same(self, request: object, theirs: Any, ours: Any, asked: Claim | None = None) -> None:
        """Compare two answers; tickets agree in their order, not in their value."""
        self.story.append(f"{self.now - START:.3f} {request} -> {theirs}")
        told = "\n".join(["", *self.story[-30:], f"but ours: {ours}"])
        assert type(theirs) is type(ours), told
        if isinstance(theirs, Held | Waiting):
            self._pair(theirs[0], ours[0], told)
        if isinstance(theirs, Held):
            assert theirs.expires_in == pytest.approx(ours.expires_in, abs=0.002), told
        elif isinstance(theirs, Waiting):
            assert theirs.position == ours.position, told
        elif isinstance(theirs, Refused):
            assert theirs.holder == ours.holder, told
        else:
            assert theirs == ours, told
        if isinstance(theirs, Waiting | Refused):
            # A hint: asking earlier is allowed, but not later than the next lease ends.
            assert asked is not None
            held = self.lines.lines[asked.spec.name].held.values()
            next_end = min((row.expires for row in held), default=self.now + 1.0)
            assert 0 <= ours.retry_in <= min(1.0, next_end - self.now + 0.001), told
        self._same_pokes(told)

    def _same_pokes(self, told: str) -> None:
        """What was published since then is what the memory store would send."""
        seen = []
        self.pushes.ping()
        while (message := self.pushes.get_message(timeout=9))["type"] != "pong":
            seen.append(replies.poked(message["data"]))
        wanted = [(i, self.tickets[t]) for a, i, t in self.pokes if a is not None]
        assert sorted(seen) == sorted(wanted), f"{told}\npoked: {seen}, not {wanted}"

    def _pair(self, theirs: int, ours: int, told: str) -> None:
        known = self.tickets.setdefault(theirs, ours)
        assert known == ours, told
        order = sorted(self.tickets.items())
        assert [o for _, o in order] == sorted(o for _, o in order), told

    def spec(self) -> Spec:
        kind, capacity, weights = self.dice.choice(KINDS)
        name = f"{self.run}{kind}-{self.dice.randrange(2)}"
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
        address = CHANNEL if wanted.id > "8" else b""
        theirs, self.pokes = self.lines.join(wanted, wait, self.now, address or None)
        ours = self.verbs.join(wanted, wait, address, self.tag)
        self.same(("join", wanted, wait, address), theirs, ours, wanted)
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
            other["detach"] = True
        elif chance < 0.3:
            kept = Claim("0" * 32, kept.spec)
        ttl = self.dice.choice((0.5, 2.0, 10.0))
        theirs, self.pokes = self.lines.keep(Keep(kept, ticket, ttl, **other), self.now)
        hint = 0 if self.dice.random() < 0.1 else self.tickets[ticket]
        (ours,) = self.verbs.keep([Keep(kept, hint, ttl, **other)], self.tag)
        self.same(("keep", kept, ticket, ttl, other), theirs, ours, kept)
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
        theirs, self.pokes = self.lines.leave(
            Leave(left.spec.name, by, hint, after, suspect, left.spec.ttl), self.now
        )
        leave = Leave(left.spec.name, by, ours_hint, after, suspect, left.spec.ttl)
        ours = self.verbs.leave(leave, self.tag)
        if not by and not theirs:
            # Broken when it was dead: whether its end was noticed before that is left open.
            late = {known.id for known, its in self.known if its == ticket}
            self.known = [one for one in self.known if one[0].id not in late]
        self.same(("leave", left, by, hint, after, suspect), theirs, ours)

    def resize(self) -> None:
        name = f"{self.run}{self.dice.choice((Kind.SEMAPHORE, Kind.LOCK))}-{self.dice.randrange(2)}"
        capacity = self.dice.choice((2, 3, 4, 8))
        theirs, self.pokes = self.lines.resize(name, capacity, self.now)
        ours = self.verbs.resize(name, capacity, self.tag)
        self.same(("resize", name, capacity), theirs, ours)

    def look(self) -> None:
        prefix = self.run + self.dice.choice(("", "lock", "semaphore-1", "x"))
        exact = self.dice.random() < 0.3
        theirs = self.lines.inspect(prefix, self.now, exact)
        names = [prefix] if exact else self.verbs.names(prefix)
        ours = [line for name in names if (line := self.verbs.look(name, self.tag))]
        self.pokes = []
        (told, times), (ours_told, ours_times) = (self._plain(lines) for lines in (theirs, ours))
        self.same(("inspect", prefix, exact), told, ours_told)
        assert times == pytest.approx(ours_times, abs=0.001), self.story[-1]

    def _plain(self, lines: list[LineRecord]) -> tuple[list[object], list[float]]:
        back = {ours: theirs for theirs, ours in self.tickets.items()}
        claims = [(line, c) for line in lines for c in line.claims]
        rows: list[object] = [
            (line.name, str(line.kind), line.capacity, c.owner, back.get(c.fence, c.fence),
             c.held, c.weight, c.position, c.meta)
            for line, c in claims
        ]  # fmt: skip
        return rows, [second for _, c in claims for second in (c.age, c.expires_in)]

    def step(self) -> None:
        """One random request, or some time."""
        self.now += self.dice.choice((0.0, 0.001, 0.01, 0.1, 0.4)) * self.dice.random()
        # No two tickets of different names are alike, which keeps the comparison simple.
        self.now = round(self.now + 0.00001, 6)
        self.verbs.at(self.now)
        self.tag = self.dice.choice((b"", TAG))
        what = [self.join] * 8
        if self.known:
            what += [self.keep] * 6 + [self.leave] * 6 + [self.resize, self.look]
        self.dice.choice(what)()


def compare(verbs: Verbs, seed: int) -> None:
    """Given both stores, one clock, and one seed for all that happens."""
    print(f"seed {seed}")
    twins = Twins(verbs, random.Random(seed))
    # When a few hundred requests are sent to both
    for _ in range(600):
        twins.step()
    # Then every answer was the same, and every poke, and something of each sort was seen
    seen = " ".join(twins.story)
    assert all(word in seen for word in ("Held(", "Waiting(", "Gone(", "-> True", "-> False"))
    twins.pushes.close()


@pytest.mark.parametrize("turn", range(times(40, 4)))
def test_random_verbs_are_answered_as_the_memory_store_answers_them(
    turn: int, shared_redis: RedisServer
) -> None:
    with Verbs(shared_redis, clock=True) as verbs:
        compare(verbs, SEED + turn)


def test_so_they_are_by_the_oldest_redis(new_redis: NewRedis) -> None:
    server = new_redis(server=old_program())
    for turn in range(times(10, 2)):
        with Verbs(server, clock=True, old=True) as verbs:
            compare(verbs, SEED + 100 + turn)


def test_who_comes_behind_waiters_whose_time_is_over_is_the_first(
    shared_redis: RedisServer,
) -> None:
    with Verbs(shared_redis, clock=True, patience=1.0) as verbs:
        verbs.at(START)
        name = f"shrunk-{secrets.token_hex(8)}"
        for one in (permit(4, 2, name), permit(4, 2, name)):
            assert isinstance(verbs.join(one), Held)
        for place in (1, 2):
            waits = verbs.join(permit(4, 2, name))
            assert isinstance(waits, Waiting)
            assert waits.position == place
        # Less is there than is held, so nobody fits, and nobody has looked at those who wait since
        assert verbs.resize(name, 3) == 4
        verbs.at(START + 2.0)
        last = verbs.join(permit(3, 1, name))
        assert isinstance(last, Waiting)
        assert last.position == 1
