"""A client with two requests that fail, one after the other, each in a different way."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from ...errors import LockLost, NotHeld, StoreUnavailable
from .arena import Arena
from .struck import Overlaid

#: What happens to the first of two requests, and to the second. The caller never gets the reply.
#: ``lost``: the store carries the request out. ``late``: the store carries it out only when the
#: play calls `settle_down`. ``doubled``: the store carries it out at once, and again when the
#: play calls `settle_down`. ``cut``: the store carries it out, and then the caller is cancelled,
#: or interrupted by Ctrl-C. ``down``: as ``lost``, and the next requests never arrive.
FIRST = ("lost", "late", "doubled")
SECOND = ("lost", "late", "cut", "down")
#: Number of requests that fail while the store is down.
DOWN = 3
#: A usual run plays every seventh pair; with HOLDFAST_TORTURE set, a run plays all of them. Seven
#: has no factor in common with the numbers of verbs and fates, so each verb and fate is played.
OF = 1 if os.environ.get("HOLDFAST_TORTURE") else 7
#: The number of pairs that are played at the same time, each by a separate client.
AT_ONCE = 6
#: The minimum share of the pairs in which both failures must happen. If the share is smaller, the
#: plays are too short. The minimum is low, because a guard with an external cache rarely asks its
#: store.
MET = 0.65
#: Maximum seconds for all pairs together, on a busy machine.
LONG_S = 55.0 if OF > 1 else 600.0
EXPECTED = (StoreUnavailable, LockLost, NotHeld, asyncio.CancelledError, KeyboardInterrupt)
#: The verbs of a contract whose requests fail, by the subject of the play.
VERBS = {
    "locks": ("join", "renew", "leave"),
    "several": ("join_free", "join", "leave", "leave_all"),
    "queues": ("put", "take", "extend", "settle"),
    "handover": ("change", "leave"),
    "breaks": ("join", "break_"),
    "permits": ("join", "renew", "leave", "resize"),
    "letters": ("revive", "purge"),
    "guards": ("read", "begin", "prolong", "finish", "abandon", "invalidate"),
}

#: The attribute of the store that has the verbs, if it isn't the store itself.
PLACES = {"queues": "queues", "letters": "queues", "guards": "guards"}


class Pair(NamedTuple):
    """Two planned failures, one after the other.

    The next request of verb ``first`` has the fate ``fate``. After it, the next request of verb
    ``second`` has the fate ``other``.
    """

    first: str
    fate: str
    second: str
    other: str


def pairs(verbs: tuple[str, ...]) -> Iterator[Pair]:
    """Yield all pairs."""
    for first, fate, second, other in itertools.product(verbs, FIRST, verbs, SECOND):
        yield Pair(first, fate, second, other)


class Second:
    """The verbs of a client; some requests fail as planned."""

    def __init__(self, client: Any, part: str, interrupt: type[BaseException]) -> None:
        store = client._ctx.store
        place = PLACES.get(part, "")
        self._verbs = getattr(store, place) if place else store
        self._names = VERBS[part]
        self._interrupt = interrupt
        self._plan: list[tuple[str, str]] = []
        self._down = self._spared = 0
        self._late: list[Callable[[], Any]] = []
        #: True after all planned failures have happened.
        self.met = False
        #: The number of requests of each verb.
        self.calls: Counter[str] = Counter()
        client._ctx.store = Overlaid(store, **{place: self}) if place else self

    def plan(self, pair: Pair, after: int = 0) -> None:
        """Let the next ``after`` requests pass; after them, inject the two faults of ``pair``."""
        self._spared = after
        self._plan = [(pair.first, pair.fate), (pair.second, pair.other)]
        self._down = 0
        self.calls.clear()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._verbs, name)
        return partial(self._ask, name, verb) if name in self._names else verb

    async def _ask(self, name: str, verb: Callable[..., Any], *given: Any) -> Any:
        self.calls[name] += 1
        if self._down:
            self._down -= 1
            raise StoreUnavailable(f"planted: the store is down, {name} did not arrive")
        fate = ""
        if self._spared:
            self._spared -= 1
        elif self._plan and self._plan[0][0] == name:
            fate = self._plan.pop(0)[1]
            self.met = self.met or not self._plan
        if fate in ("late", "doubled"):
            self._late.append(partial(verb, *given))
        if fate == "late":
            raise StoreUnavailable(f"planted: {name} is late")
        answer = await verb(*given)
        if fate == "cut" and not _kept_by_itself():
            raise self._interrupt
        if fate == "down":
            self._down = DOWN
        if fate:
            raise StoreUnavailable(f"planted: the reply to {name} is lost")
        return answer

    def forget(self) -> None:
        """Plan nothing."""
        self._plan, self._down = [], 0

    async def settle_down(self, late: bool = True) -> None:
        """End the plan, and carry out the late requests; with ``late=False``, discard them."""
        self.forget()
        calls, self._late = self._late, []
        for call in calls if late else ():
            with contextlib.suppress(StoreUnavailable):  # a late copy may be refused
                await call()


def _kept_by_itself() -> bool:
    """Return True if the renewer sends this request; the renewer can't be interrupted."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is not None:
        return "keeper" in task.get_name()
    return "keeper" in threading.current_thread().name


Play = Callable[[Arena, Any, Second, Pair, str], Awaitable[None]]


async def each(at: Arena, part: str, play: Play) -> None:
    """Play with each pair of failures, on a separate name each time."""
    chosen = [*pairs(VERBS[part])][::-OF]
    actors = [at.start(_some, at, part, play, chosen[nth::AT_ONCE]) for nth in range(AT_ONCE)]
    met = sum([await actor.result(LONG_S) for actor in actors])
    assert met >= MET * len(chosen), f"only {met} of {len(chosen)} pairs came about"


async def _some(at: Arena, part: str, play: Play, chosen: Sequence[Pair]) -> int:
    """Play these pairs one after the other; return the number of pairs that happened."""
    client, met = at.client(), 0
    interrupt = asyncio.CancelledError if at.face.name == "aio" else KeyboardInterrupt
    struck = Second(client, part, interrupt)
    for pair in chosen:
        struck.met = False
        struck.plan(pair)
        try:
            await play(at, client, struck, pair, at.fresh(f"{'-'.join(pair)}/"))
        except BaseException as wrong:
            struck.forget()
            if isinstance(wrong, KeyboardInterrupt):  # a KeyboardInterrupt would end all tests
                raise AssertionError(f"interrupted after {pair}") from wrong
            wrong.add_note(f"after {pair}")
            raise
        met += struck.met
    return met


async def answered(verb: Callable[[], Awaitable[Any]]) -> Any:
    """Return the answer of a verb that may be tried again; None if it never comes."""
    for _ in range(4):
        try:
            return await verb()
        except EXPECTED:
            continue
    return None
