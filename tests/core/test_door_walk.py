"""Random misuse of ``with``, from a seed, against a model of the bodies that must hold.

Several bodies share one lock object. A body is a plain ``with``, a generator, a context manager
made from a generator, an ``ExitStack`` or a pair of calls by hand. Each step begins or ends a body.

A body can end on its own thread or on another, in any order, twice, or after a loss. It can end by
exhaustion, by close, by garbage collection, or inside another body. After every step, each body
that is inside according to the model must still hold, by its hold object and in the store.
"""

from __future__ import annotations

import contextlib
import queue
import random
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from holdfast import Client, Hold, LockLost, NotHeld
from holdfast.core.model import Loss, State
from holdfast.testing.clock import TestClock
from tests.torture.scale import seed_of, times

WALKS = times(400, 60)
STEPS = 40
PERMITS = 4


class Hand:
    """A thread that runs one call after the other."""

    def __init__(self) -> None:
        self.told: queue.Queue[Callable[[], Any] | None] = queue.Queue()
        self.done: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (act := self.told.get()) is not None:
            try:
                answer = act(), None
            except BaseException as failure:
                answer = None, failure
            del act
            self.done.put(answer)
            del answer

    def do(self, act: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """Run this call on the thread; return its result and its exception."""
        self.told.put(act)
        return self.done.get(timeout=30)

    def end(self) -> None:
        """End the thread."""
        self.told.put(None)
        self.thread.join(10)


def bodies(lock: Any) -> Generator[Hold, None, None]:
    with lock as hold:
        yield hold


managed = contextlib.contextmanager(bodies)


def _enter(lock: Any) -> Hold:
    hold: Hold = lock.__enter__()
    return hold


def _leave(lock: Any) -> None:
    lock.__exit__(None, None, None)


def _toggle(lock: Any, on: bool) -> Hold | None:
    """Enter and leave from one function: its frames often have the same address."""
    if on:
        hold: Hold = lock.__enter__()
        return hold
    lock.__exit__(None, None, None)
    return None


def _around(lock: Any, hold: list[Hold], inside: Callable[[], None]) -> None:
    """A plain ``with`` whose body makes a call."""
    with lock as mine:
        hold.append(mine)
        inside()
        assert mine.lost is not None or mine.state is State.HELD, "its own body is inside"


def _off(lock: Any) -> None:
    _toggle(lock, False)


class _Collected:
    """Has the only reference to a thing, until `collect` drops it."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def collect(self) -> None:
        self.thing = None


@dataclass
class Body:
    """A body that is inside, according to the model."""

    kind: str
    hold: Hold
    hand: Hand
    thing: Any
    lost: bool = False


@dataclass
class Walk:
    """One random history."""

    client: Client
    seed: int
    inside: list[Body] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.lock: Any = self.chance.choice(
            [
                lambda: self.client.semaphore("x", PERMITS),
                lambda: self.client.rwlock("x").read,
                lambda: self.client.lock("x"),
            ]
        )()
        self.most = 1 if type(self.lock).__name__ == "Lock" else PERMITS
        self.hands = [Hand() for _ in range(3)]

    def run(self) -> None:
        try:
            for _ in range(STEPS):
                choices: list[Callable[[], None]] = [self.begin] * 3 if self.room() else []
                choices += [self.end] * 3 + [self.lose] if self.inside else [self.begin]
                choices += [self.end_too_much, self.call_inside]
                self.chance.choice(choices)()
                self.judge()
            while self.inside:
                self.end()
                self.judge()
            assert self.client.inspect("x") == [], self.told()
        finally:
            for hand in self.hands:
                hand.end()

    def told(self) -> str:
        return "\n".join([f"seed {self.seed}", *self.steps])

    def room(self) -> bool:
        return sum(not one.lost for one in self.inside) < self.most

    def judge(self) -> None:
        """Check that exactly the bodies inside hold the lock."""
        lines = self.client.inspect("x")
        there = {one.fence for line in lines for one in line.holders}
        for one in self.inside:
            if not one.lost:
                assert one.hold.state is State.HELD, f"{self.told()}\n{one.kind} is {one.hold!r}"
        held = {one.hold.fence for one in self.inside if not one.lost}
        assert held == there, f"{self.told()}\n{held} are inside, {there} hold"

    def begin(self) -> None:
        hand = self.chance.choice(self.hands)
        nested = {id(one.hand) for one in self.inside if type(self.lock).__name__ == "RWSide"}
        if id(hand) in nested:  # it would be counted, and is one hold then
            return
        kind = self.chance.choice(["generator", "manager", "stack", "hand", "toggle"])
        by_hand = {"hand", "toggle"}
        if kind in by_hand and any(one.hand is hand and one.kind in by_hand for one in self.inside):
            return  # two by hand on one thread can't be told apart, but by their order
        thing: Any = None
        if kind == "generator":
            thing = bodies(self.lock)
            answer = hand.do(lambda: next(thing))
        elif kind == "manager":
            thing = managed(self.lock)
            answer = hand.do(thing.__enter__)
        elif kind == "stack":
            thing = contextlib.ExitStack()
            answer = hand.do(lambda: thing.enter_context(self.lock))
        elif kind == "hand":
            answer = hand.do(lambda: _enter(self.lock))
        else:
            answer = hand.do(lambda: _toggle(self.lock, True))
        self.steps.append(f"begin {kind} on {self.hands.index(hand)}: {answer}")
        assert answer[1] is None, self.told()
        self.inside.append(Body(kind, answer[0], hand, thing))

    def end(self) -> None:
        one = self.inside.pop(self.chance.randrange(len(self.inside)))
        # A body entered by hand ends on its own thread: on another one its exit could mean any
        # body.
        hand = one.hand if one.kind in ("hand", "toggle") else self.chance.choice(self.hands)
        thing, one.thing = one.thing, None
        if one.kind in ("hand", "toggle"):
            act: Callable[[], Any] = partial(_leave if one.kind == "hand" else _off, self.lock)
        elif one.kind == "manager":
            act = partial(thing.__exit__, None, None, None)
        else:
            ways = [thing.close]
            if one.kind == "generator":
                ways += [partial(next, thing, None), _Collected(thing).collect]
            act = self.chance.choice(ways)
            del ways
        del thing
        _, raised = hand.do(act)
        self.steps.append(f"end {one.kind} {one.hold.fence} on {self.hands.index(hand)}: {raised}")
        assert raised is None or (one.lost and isinstance(raised, LockLost)), self.told()

    def end_too_much(self) -> None:
        """Call an exit that belongs to no body inside."""
        hand = self.chance.choice(self.hands)
        by_hand = ("hand", "toggle")
        if any(one.lost or one.hand is hand or one.kind in by_hand for one in self.inside):
            return
        _, raised = hand.do(lambda: _off(self.lock))
        self.steps.append(f"too much on {self.hands.index(hand)}: {raised}")
        assert isinstance(raised, NotHeld), self.told()

    def call_inside(self) -> None:
        """Let a body call a function that ends a body which was entered by hand before."""
        before = [one for one in self.inside if one.kind in ("hand", "toggle") and not one.lost]
        if not before or not self.room() or type(self.lock).__name__ == "RWSide":
            return
        one = self.chance.choice(before)
        self.inside.remove(one)
        holds: list[Hold] = []
        _, raised = one.hand.do(lambda: _around(self.lock, holds, lambda: _leave(self.lock)))
        self.steps.append(f"call inside on {self.hands.index(one.hand)}: {raised}")
        assert raised is None, self.told()

    def lose(self) -> None:
        one = self.chance.choice(self.inside)
        if one.lost:
            return
        one.lost = True
        self.client.break_("x", one.hold.fence)
        self.client._ctx.keeper.lose(one.hold._lease, Loss.BROKEN)
        self.steps.append(f"lose {one.kind} {one.hold.fence}")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_end_of_a_with_frees_what_another_statement_holds() -> None:
    first = seed_of("misuse of with")
    for number in range(WALKS):
        clock = TestClock()
        try:
            Walk(clock.client(ttl=60), first + number).run()
        finally:
            clock.close()
