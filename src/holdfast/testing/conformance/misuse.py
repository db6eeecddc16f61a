"""Random misuse of ``with`` on one lock object, and a model of the holds that the lock must have.

A body is code that enters the lock and leaves it later: an async generator, a context manager made
from such a generator, an ``AsyncExitStack``, a separate task or thread, or two calls by hand. A
step begins a body or ends one. A body can end in the thread or task that began it, in another one,
or in the event loop of another thread; in any order, twice, or after a loss; by exhaustion, close,
garbage collection or cancellation. After each step exactly the bodies that are inside hold the
lock, by their own state and by the store's.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...core.model import State
from ...errors import LockLost, NotHeld
from ..faces import now
from .arena import SOON_S, Arena, stolen

#: A function that carries out one step. A ``Hand`` (a thread or task) runs it.
Act = Callable[[], Awaitable[Any]]
#: Kinds of bodies made of two calls; only its thread or task distinguishes such a body.
BY_HAND = ("hand", "toggle")
#: Ends of a body that raise ``LockLost`` after a loss.
TOLD = ("leave", "exit", "exhaust", "end")
#: The number of threads or tasks that run steps.
HANDS = 3
#: Rounds of the event loop after which the end of a body is cancelled; one of them is drawn.
ROUNDS = (1, 2, 3, 5)


class Hand:
    """A thread or task that does the acts that it gets, one after the other."""

    def __init__(self, at: Arena) -> None:
        self._at = at
        self._told: list[tuple[Act | None, Any]] = []
        self._wake = at.flag()
        self._came: tuple[Any, BaseException | None] = (None, None)
        self._actor = at.start(self._work)

    async def _work(self) -> None:
        while True:
            await self._wake.wait(60)
            self._wake = self._at.flag()
            act, done = self._told.pop()
            if act is None:
                return
            try:
                self._came = await act(), None
            except BaseException as failure:
                failure.__traceback__ = None  # its frames would keep objects from collection
                self._came = None, failure
            del act
            done.set()

    async def do(self, act: Act) -> tuple[Any, BaseException | None]:
        """Do the act; return what it returned, and what it raised."""
        done = self._at.flag()
        self._told.append((act, done))
        del act
        self._wake.set()
        await done.wait(20)
        came, self._came = self._came, (None, None)
        return came

    async def end(self) -> None:
        """End the thread or task."""
        self._told.append((None, None))
        self._wake.set()
        await self._actor.result()


class Far:
    """An event loop in a separate thread, which does each act in a new task."""

    def __init__(self) -> None:
        self._begun = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._main(),), daemon=True)
        self._thread.start()

    async def _main(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._begun.set()
        await self._over.wait()

    async def do(self, act: Act) -> tuple[Any, BaseException | None]:
        """Do the act in that loop; return what it returned, and what it raised."""

        async def run(act: Act) -> tuple[Any, BaseException | None]:
            try:
                return await act(), None
            except BaseException as failure:
                failure.__traceback__ = None
                return None, failure

        assert self._begun.wait(20)
        told = asyncio.run_coroutine_threadsafe(run(act), self._loop)
        del act
        return await asyncio.wait_for(asyncio.wrap_future(told), 20)

    async def end(self) -> None:
        """End the loop."""
        assert self._begun.wait(20)
        self._loop.call_soon_threadsafe(self._over.set)
        await asyncio.to_thread(self._thread.join, 20)
        assert not self._thread.is_alive()


async def _bodies(lock: Any) -> AsyncGenerator[Any, None]:
    async with lock as hold:
        yield hold


async def _held(lock: Any) -> AsyncGenerator[Any, None]:
    async with await lock.acquire() as hold:
        yield hold


_managed = contextlib.asynccontextmanager(_bodies)


async def _enter(lock: Any) -> Any:
    return await lock.__aenter__()


async def _leave(lock: Any) -> None:
    await lock.__aexit__(None, None, None)


async def _toggle(lock: Any, on: bool) -> Any:
    """Enter and leave from one function: its frames often have the same address."""
    if on:
        return await lock.__aenter__()
    await lock.__aexit__(None, None, None)
    return None


class _Collected:
    """Keeps the only reference to a thing, until ``collect`` drops it."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    async def collect(self) -> None:
        """Drop the reference."""
        self.thing = None


class _Task:
    """A plain ``async with`` in a separate thread or task."""

    def __init__(self, at: Arena, lock: Any) -> None:
        self._inside, self._over, self._hold = at.flag(), at.flag(), None
        self.actor = at.start(self._run, lock)

    async def _run(self, lock: Any) -> None:
        async with lock as self._hold:
            self._inside.set()
            await self._over.wait(60)

    async def begin(self) -> Any:
        """Wait until the body is inside; return its hold."""
        await self._inside.wait()
        return self._hold

    async def end(self) -> None:
        """End the body."""
        self._over.set()
        await self.actor.result()

    async def cancel(self, again: bool) -> None:
        """Cancel the body; with ``again``, cancel it once more while it leaves."""
        self.actor.cancel()
        if again:
            await asyncio.sleep(0)
            self.actor.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.actor.result()


@dataclass
class Body:
    """A body that is inside, by the model."""

    kind: str
    hold: Any
    hand: Hand | Far
    thing: Any
    lost: bool = False


@dataclass
class Walk:
    """One history of ``steps`` random steps."""

    at: Arena
    chance: random.Random
    steps: int
    inside: list[Body] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        at, kind = self.at, self.at.primitive.name
        self.aio = at.face.name == "aio"
        #: True if a second entry of a thread or task is counted, and gets no separate hold.
        self.counted = kind == "read"
        self.most = 3 if kind in ("read", "semaphore") else 1
        self.lock: Any = (
            at.locks.semaphore(at.name, self.most) if kind == "semaphore" else at.lock()
        )
        self.names = [at.name, at.name + "/2"] if kind == "all" else [at.name]
        self.hands: list[Hand | Far] = [Hand(at) for _ in range(HANDS)]
        #: The hands for bodies that begin and end in one task; ``Far`` does each act in a new task.
        self.near = [*self.hands]
        if self.aio:
            self.hands.append(Far())

    async def run(self) -> None:
        """Play the history; ``AssertionError`` lists its steps."""
        try:
            for _ in range(self.steps):
                choices: list[Act] = [self._begin] * 3 if self._room() else []
                choices += [self._end] * 3 + [self._lose] if self.inside else [self._begin]
                choices += [self._end_too_much]
                await self.chance.choice(choices)()
                await self._judge()
            while self.inside:
                await self._end()
                await self._judge()
        finally:
            for hand in self.hands:
                await hand.end()

    def _story(self) -> str:
        return "\n".join(self.told)

    def _room(self) -> bool:
        return sum(not one.lost for one in self.inside) < self.most

    def _holds(self, one: Body) -> list[Any]:
        return list(one.hold.holds) if len(self.names) > 1 else [one.hold]

    async def _judge(self) -> None:
        """Check that each body inside holds, and at the end that no hold is left."""
        begun = now()
        ours = [hold for one in self.inside if not one.lost for hold in self._holds(one)]
        want = {(hold.name, self.at.number(hold)) for hold in ours}
        while True:
            there = {(name, one.fence) for name in self.names for one in await self._seen(name)}
            for hold in ours:
                assert hold.state in (State.HELD, State.JEOPARDY), f"{self._story()}\n{hold!r}"
            story = f"{self._story()}\n{want} are inside, {there} hold"
            assert want <= there, story
            if want == there:
                return
            assert now() - begun < SOON_S + stolen(begun), story
            await self.at.sleep(0.005)

    async def _seen(self, name: str) -> Any:
        return await self.at.holders(name)

    def _number(self, hand: Hand | Far) -> int:
        return self.hands.index(hand)

    async def _begin(self) -> None:
        kind = self.chance.choice(["generator", "held", "manager", "stack", "task", *BY_HAND])
        hand = self.chance.choice(self.near if kind in ("task", *BY_HAND) else self.hands)
        if self.counted and any(one.hand is hand for one in self.inside):
            return  # the entry would be counted, and get no separate hold
        if kind in BY_HAND and any(one.hand is hand and one.kind in BY_HAND for one in self.inside):
            return  # two such bodies in one thread or task differ only by their order
        thing: Any = None
        if kind in ("generator", "held"):
            thing = (_bodies if kind == "generator" else _held)(self.lock)
            act: Act = partial(anext, thing)
        elif kind == "manager":
            thing = _managed(self.lock)
            act = thing.__aenter__
        elif kind == "stack":
            thing = contextlib.AsyncExitStack()
            act = partial(thing.enter_async_context, self.lock)
        elif kind == "task":
            thing = _Task(self.at, self.lock)
            act = thing.begin
        else:
            act = partial(_enter if kind == "hand" else partial(_toggle, on=True), self.lock)
        hold, raised = await hand.do(act)
        self.told.append(f"begin {kind} in {self._number(hand)}: {hold!r} {raised!r}")
        assert raised is None, self._story()
        self.inside.append(Body(kind, hold, hand, thing))

    async def _end(self) -> None:
        one = self.inside.pop(self.chance.randrange(len(self.inside)))
        # A body of two calls ends in the hand that began it: another hand's end isn't recognised.
        hands = self.near if one.kind == "task" else self.hands
        hand = one.hand if one.kind in BY_HAND else self.chance.choice(hands)
        thing, one.thing = one.thing, None
        ways: list[tuple[str, Act]] = []
        if one.kind == "hand":
            ways = [("leave", partial(_leave, self.lock))]
        elif one.kind == "toggle":
            ways = [("leave", partial(_toggle, self.lock, False))]
        elif one.kind == "manager":
            ways = [("exit", partial(thing.__aexit__, None, None, None))]
        elif one.kind in ("generator", "held"):
            ways = [
                ("exhaust", partial(anext, thing, None)),
                ("close", thing.aclose),
                ("collect", _Collected(thing).collect),
            ]
        else:
            ways = [("end", thing.end if one.kind == "task" else thing.aclose)]
        if self.aio and one.kind == "task":
            ways += [(f"cancel {two}", partial(thing.cancel, two)) for two in (False, True)]
        elif self.aio and one.kind not in BY_HAND:
            rounds = self.chance.choice(ROUNDS)
            ways.append((f"cancel after {rounds}", partial(_cut, ways[0][1], rounds)))
        way, act = self.chance.choice(ways)
        del thing, ways
        _, raised = await hand.do(act)
        del act
        self.told.append(f"end {one.kind} {one.hold!r} in {self._number(hand)}, {way}: {raised!r}")
        cut = way.startswith("cancel") and isinstance(raised, asyncio.CancelledError)
        lost = one.lost and isinstance(raised, LockLost)
        assert raised is None or cut or lost, self._story()
        assert lost or not one.lost or way not in TOLD, self._story()

    async def _end_too_much(self) -> None:
        """Check that an end without a body inside is refused."""
        hand = self.chance.choice(self.near)
        if any(one.lost or one.hand is hand or one.kind in BY_HAND for one in self.inside):
            return
        _, raised = await hand.do(partial(_toggle, self.lock, False))
        self.told.append(f"too much in {self._number(hand)}: {raised!r}")
        assert isinstance(raised, NotHeld), self._story()

    async def _lose(self) -> None:
        one = self.chance.choice(self.inside)
        if one.lost:
            return
        one.lost = True
        for hold in self._holds(one):
            assert await self.at.others.break_(hold.name, self.at.number(hold)), self._story()
            _, raised = await one.hand.do(hold.extend)
            assert isinstance(raised, LockLost), self._story()
        self.told.append(f"lose {one.kind} {one.hold!r}")
        assert one.hold.lost is not None, self._story()


async def _cut(act: Act, rounds: int) -> None:
    """Do the act in a task, and cancel the task after ``rounds`` rounds of the event loop."""
    begun: list[bool] = []

    async def run() -> None:
        begun.append(True)
        await act()

    task = asyncio.create_task(run())
    for _ in range(rounds):
        await asyncio.sleep(0)
    assert begun
    task.cancel()
    await task
