"""A line is damaged, and after that many come and go: never two of them hold at once.

Each history is drawn: some claims on one name are asked for, renewed and released in an order of
chance, while time passes. Once in it one item of what the store keeps of the name is changed from
outside. Those who were there by then may lose by it; those who come after it exclude each other as
if nothing had happened. Time passes by the server's clock, which is set forward, so that leases end
without anybody waiting.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

from holdfast import HoldfastError
from holdfast.core.model import Claim, Held, Keep, Kind, Leave, Spec, Waiting
from holdfast.core.ports import Store
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.testing.faults.damage import KINDS, Ground
from holdfast.url import find
from tests.servers.clock import Clock

#: Acts of one history, and claims that are at work at once.
ACTS, CLAIMS = 40, 5
#: A request may take so many seconds.
WITHIN_S = 10.0
#: What a page says is believed, whoever wrote it.
BELIEVED = ("capacity", "former")
CAPACITY = {Kind.LOCK: 1, Kind.RWLOCK: 1000, Kind.SEMAPHORE: 4}
WEIGHTS = {Kind.LOCK: (1,), Kind.RWLOCK: (1, 1000), Kind.SEMAPHORE: (1, 2, 3)}


class Lines(NamedTuple):
    """A server with a clock of its own, and what it keeps."""

    ground: Ground
    clock: Clock
    #: What the name is used as; a semaphore only where its capacity isn't damaged.
    kinds: tuple[Kind, ...] = (Kind.LOCK, Kind.RWLOCK)


class One:
    """A claim, and until when its owner believes in it."""

    def __init__(self, spec: Spec, name: str, late: bool) -> None:
        self.claim = Claim(name, spec)
        self.late = late  #: It came after the damage.
        self.ticket = 0
        self.until = 0.0

    def told(self, answer: object, sent: float) -> bool:
        """Take an answer in; False if the claim is gone."""
        if isinstance(answer, Held):
            self.ticket, self.until = answer.fence, sent + answer.expires_in * 0.99
            return True
        self.until = 0.0
        if isinstance(answer, Waiting):
            self.ticket = answer.ticket
            return True
        return False


class History:
    """One history, by its seed."""

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

    def _keep(self) -> None:
        one = self._dice.choice(self._claims)
        sent = self._now()
        keep = Keep(one.claim, one.ticket, one.claim.spec.ttl)
        (answer,) = run_sync(self._store.keep([keep], WITHIN_S))
        self._note("keep", one, answer)
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
                yield self._dice.choice((self._keep, self._keep, self._leave, self._pass))

    def play(self) -> str:
        """What went wrong, with all that was done; '' if nothing did."""
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


def nobody_holds_beside_another(lines: Lines, seeds: Iterator[int]) -> None:
    """Play these histories."""
    module, parsed = find(lines.ground.url)
    with ExitStack() as ends:
        store = module.open_blocking(parsed)
        ends.callback(lambda: run_sync(store.close()))
        wrong = [said for seed in seeds if (said := History(lines, store, seed).play())]
    assert not wrong, "\n".join(wrong[:3])
