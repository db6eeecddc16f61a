"""A line is damaged, and then many claims come and go: never do two of them hold at the same time.

Each history is random: some claims on one name are requested, renewed and released in random order
while time passes. Once in each history, one item that the store keeps for the name is changed from
outside. Claims from before that moment can lose their hold. Later claims exclude each other as
usual. The server's clock is set forward to let time pass, so that leases end without real waiting.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

from holdfast import HoldfastError
from holdfast.core.model import Claim, Held, Kind, Leave, Renewal, Spec, Waiting
from holdfast.core.ports import Store
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.testing.faults.damage import KINDS, Ground
from holdfast.url import find
from tests.servers.clock import Clock

#: Number of acts in one history, and maximum number of active claims.
ACTS, CLAIMS = 40, 5
#: Maximum seconds for a request.
WITHIN_S = 10.0
#: Columns that are not damaged, because the store uses their values without a check.
BELIEVED = ("capacity", "former")
CAPACITY = {Kind.LOCK: 1, Kind.RWLOCK: 1000, Kind.SEMAPHORE: 4}
WEIGHTS = {Kind.LOCK: (1,), Kind.RWLOCK: (1, 1000), Kind.SEMAPHORE: (1, 2, 3)}


class Lines(NamedTuple):
    """A server with its own clock, and the data that it keeps."""

    ground: Ground
    clock: Clock
    #: The kinds of the name; a semaphore only if its capacity is not damaged.
    kinds: tuple[Kind, ...] = (Kind.LOCK, Kind.RWLOCK)


class One:
    """A claim, and the time until which its owner takes it for held."""

    def __init__(self, spec: Spec, name: str, late: bool) -> None:
        self.claim = Claim(name, spec)
        self.late = late  #: It came after the damage.
        self.ticket = 0
        self.until = 0.0

    def told(self, answer: object, sent: float) -> bool:
        """Process a reply; return False if the claim is gone."""
        if isinstance(answer, Held):
            self.ticket, self.until = answer.fence, sent + answer.expires_in * 0.99
            return True
        self.until = 0.0
        if isinstance(answer, Waiting):
            self.ticket = answer.ticket
            return True
        return False


class History:
    """One history, drawn from its seed."""

    def __init__(self, lines: Lines, store: Store, seed: int) -> None:
        self._lines, self._store = lines, store
        self._dice = random.Random(seed)
        self._name = f"line-{seed}"
        self._kind = self._dice.choice(lines.kinds)
        self._claims: list[One] = []
        self._told: list[str] = []
        self._damaged = False

    def _now(self) -> float:
        return boottime() + self._lines.clock.ahead

    def _note(self, what: str, one: One, answer: object) -> None:
        self._told.append(f"{what} {one.claim.id[:4]}: {answer}")

    def _join(self) -> None:
        dice, kind = self._dice, self._kind
        weight, ttl = dice.choice(WEIGHTS[kind]), dice.choice((1.0, 4.0))
        spec = Spec(self._name, kind, CAPACITY[kind], weight, ttl, "host:1:test")
        one = One(spec, f"{dice.getrandbits(128):032x}", self._damaged)
        sent = self._now()
        answer = run_sync(self._store.join(one.claim, dice.random() < 0.8, WITHIN_S))
        self._note("join", one, answer)
        if one.told(answer, sent):
            self._claims.append(one)

    def _renew(self) -> None:
        """Renew a claim; one that waits, as far as its owner knows, asks for its turn."""
        one = self._dice.choice(self._claims)
        sent, verb = self._now(), "renew" if one.until else "turn"
        answer: object
        if one.until:
            renewal = Renewal(one.claim, one.ticket, one.claim.spec.ttl)
            (answer,) = run_sync(self._store.renew([renewal], WITHIN_S))
        else:
            answer = run_sync(self._store.turn(one.claim, one.ticket, WITHIN_S))
        self._note(verb, one, answer)
        if isinstance(answer, Exception):
            raise answer
        if not one.told(answer, sent):
            self._claims.remove(one)

    def _leave(self) -> None:
        one = self._dice.choice(self._claims)
        self._claims.remove(one)
        leave = Leave(self._name, one.claim.id, one.ticket)
        self._note("leave", one, run_sync(self._store.leave(leave, WITHIN_S)))

    def _pass(self) -> None:
        seconds = self._dice.choice((0.3, 0.9, 1.1, 2.5))
        self._lines.clock.step(seconds)
        self._told.append(f"{seconds} s pass")

    def _damage(self) -> None:
        items = [
            one
            for one in self._lines.ground.items(self._name)
            if getattr(one, "column", "") not in BELIEVED
        ]
        for _ in range(20 if items else 0):
            item, kind = self._dice.choice(items), self._dice.choice(KINDS)
            if self._lines.ground.damage(item, kind, self._dice):
                self._told.append(f"damage: {kind} {item}")
                self._damaged = True
                return

    def _acts(self) -> Iterator[Any]:
        at = self._dice.randrange(5, ACTS // 2)
        for number in range(ACTS):
            if number >= at and not self._damaged:
                yield self._damage
            elif len(self._claims) < 2 or (
                len(self._claims) < CLAIMS and self._dice.random() < 0.3
            ):
                yield self._join
            else:
                yield self._dice.choice((self._renew, self._renew, self._leave, self._pass))

    def play(self) -> str:
        """Play the history; return the violation with all its acts, or '' if there is none."""
        for act in self._acts():
            try:
                act()
            except HoldfastError as refused:
                self._told.append(f"{act.__name__}: {type(refused).__name__}: {refused}")
            now = self._now()
            inside = [one for one in self._claims if one.late and one.until > now]
            weight = sum(one.claim.spec.weight for one in inside)
            if weight > CAPACITY[self._kind]:
                who = ", ".join(one.claim.id[:4] for one in inside)
                return "\n  ".join([f"{self._name}: {who} hold at once", *self._told])
        return ""


def no_claim_holds_next_to_another(lines: Lines, seeds: Iterator[int]) -> None:
    """Play these histories, and check that no two later claims hold at the same time."""
    module, parsed = find(lines.ground.url)
    with ExitStack() as ends:
        store = module.open_blocking(parsed)
        ends.callback(lambda: run_sync(store.close()))
        wrong = [said for seed in seeds if (said := History(lines, store, seed).play())]
    assert not wrong, "\n".join(wrong[:3])
