"""Damage to a store's data from outside, one item at a time, between any two verbs.

An adapter (`Ground`) lists the items that a store keeps for the names of a round, and damages one
of them. A round plays the scenario of ``scene.py`` on one of the faces, with a holder, a waiter, a
queue and a refresh guard; before one of its acts one item is damaged. `Verdict` lists violations:

    raw exception   an act raised an exception that isn't a `HoldfastError`
    stuck           an act took longer than its bound
    two holders     two holds of one name were both valid for longer than the store's docs allow
    locked          long after the damage, use of the name neither works nor raises a clear error

A new store needs an adapter and one test, like ``tests/stores/redis/test_damage.py``.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from ...aio import AsyncClient
from ...errors import HoldfastError, NotAcquired, StoreUnavailable
from ...runtime.blocking import boottime
from ..faces import FACES, Face
from .scene import ACTS, Scene

__all__ = ["ACTS", "KINDS", "Case", "Ground", "Round", "Verdict", "cases", "rounds"]

#: The kinds of damage. A store plays the kinds that its data can express.
KINDS = ("removed", "emptied", "truncated", "flipped", "another type", "zeroes", "extreme")
#: Maximum seconds of one act.
BOUND_S = 12.0
#: Seconds in which everything without renewal expires: a lease, a waiter, a grace period.
CALM_S = 8.0
#: Maximum seconds of a round; a longer round counts as hanging.
ROUND_S = 240.0


class Ground(Protocol):
    """The adapter of a store: its data as items that can be damaged."""

    #: The URL for the clients of a round.
    url: str
    #: Seconds for which two holds may both be valid after damage, by the store's documentation.
    overlap_s: float

    def items(self, token: str) -> Sequence[Any]:
        """Return the items of names that contain ``token``; reports show the ``repr`` of items."""
        ...

    def damage(self, item: Any, kind: str, chance: random.Random) -> bool:
        """Damage one item; False if the store can't express this kind, or the item is gone."""
        ...


class Case(NamedTuple):
    """One round: damage of this kind to one item, before the act with this number.

    ``item`` counts modulo the number of items that exist at that moment.
    """

    act: int
    item: int
    kind: str
    seed: int


class Verdict(NamedTuple):
    """The result of a round: what was damaged, and what went wrong."""

    case: Case
    damaged: str
    wrong: list[str]


def cases(seed: int, items: int = 8) -> Iterator[Case]:
    """Yield all combinations of act, item and kind, in random order."""
    found = [
        (act, item, kind) for act in range(len(ACTS)) for item in range(items) for kind in KINDS
    ]
    chance = random.Random(seed)
    chance.shuffle(found)
    for number, (act, item, kind) in enumerate(found):
        yield Case(act, item, kind, seed + number)


class Round:
    """One run of the scenario; its names contain the token of the round."""

    def __init__(self, ground: Ground, case: Case, face: Face = FACES["sync"]) -> None:
        self._ground = ground
        self._case = case
        self._face = face
        self._chance = random.Random(case.seed)
        self.token = f"damage{case.seed:x}{random.SystemRandom().getrandbits(40):x}"
        self.wrong: list[str] = []
        self.damaged = ""

    def play(self) -> Verdict:
        """Play all acts, and return what went wrong."""
        try:
            self._face.run(self._play, ROUND_S)
        except TimeoutError as hangs:
            self.wrong.append(f"the round hangs: {hangs}")
        return Verdict(self._case, self.damaged, self.wrong)

    async def _play(self) -> None:
        ground = self._ground
        scene = Scene(self._face, ground.url, self.token, ground.overlap_s)
        self.wrong = scene.wrong
        for number, act in enumerate(ACTS):
            if number == self._case.act:
                await self._face.outside(self._damage)
            await self._act(act.__name__, act, scene)
        await self._recovers(scene)
        await scene.over()
        for client in scene.clients:
            await self._act("close", _closing(client), scene)

    def _damage(self) -> None:
        items = self._ground.items(self.token)
        if items:
            item = items[self._case.item % len(items)]
            if self._ground.damage(item, self._case.kind, self._chance):
                self.damaged = repr(item)

    async def _act(self, name: str, act: Callable[[Scene], Awaitable[Any]], scene: Scene) -> None:
        begun = boottime()
        try:
            await act(scene)
        except HoldfastError as clear:
            if not str(clear):
                self.wrong.append(f"{name}: an error without words: {clear!r}")
        except Exception as raw:
            self.wrong.append(f"{name}: raw exception {raw!r}")
        took = boottime() - begun
        if took > BOUND_S:
            self.wrong.append(f"{name}: stuck for {took:.1f} s")

    async def _recovers(self, scene: Scene) -> None:
        """Check that everything works again within a bounded time, or raises a clear error."""
        for name, verb in (
            ("the lock", scene.use_lock),
            ("the queue", scene.use_queue),
            ("the guard", scene.use_guard),
        ):
            end = boottime() + getattr(self._ground, "calm_s", CALM_S)
            while True:
                try:
                    await verb()
                except (NotAcquired, StoreUnavailable) as busy:
                    if boottime() < end:
                        await self._face.sleep(0.05)
                        continue
                    if isinstance(busy, NotAcquired):
                        self.wrong.append(f"{name} is locked: {busy}")
                except HoldfastError:
                    pass
                except Exception as raw:
                    self.wrong.append(f"{name}: raw exception {raw!r}")
                break


def _closing(client: AsyncClient) -> Callable[[Scene], Awaitable[None]]:
    return lambda _: client.close()


def rounds(ground: Ground, chosen: Sequence[Case], at_once: int = 1, aio: int = 4) -> list[Verdict]:
    """Play these cases, ``at_once`` at a time; return the rounds in which something went wrong.

    Every ``aio``-th round runs under asyncio (0: none), the others on threads."""
    left, found, lock = list(enumerate(chosen)), list[Verdict](), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if not left:
                    return
                number, case = left.pop()
            face = FACES["aio" if aio and number % aio == 0 else "sync"]
            verdict = Round(ground, case, face).play()
            with lock:
                found.append(verdict)

    threads = [threading.Thread(target=work) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(chosen), "a round did not finish"
    return [one for one in found if one.wrong]
