"""The list of runs: every case x its primitives x its faces, per store.

If a store lacks an operation of a case (by its ``Capabilities``), the case is still run, and must
end with ``NotSupported``. A case about a property that a store doesn't have, such as fairness,
isn't run there. No case is left out for another reason.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ...core.model import Capabilities, Loss
from ...errors import LockLost, NotSupported, StoreUnavailable
from ...url import find
from ..faces import FACES, now
from ..promise import PromiseBroken, promised
from . import cases, pulse
from .arena import PRIMITIVES, Arena, unclear
from .registry import CASES, OPERATIONS, Case

#: Maximum seconds of a case; a longer case counts as hanging. With HOLDFAST_TORTURE set, some
#: cases play seven times as many steps.
LIMIT_S = 600.0 if os.environ.get("HOLDFAST_TORTURE") else 60.0
#: The lease of the first hold of each client, seconds.
SHORT_S = 5.0
#: Maximum number of times that a case is played if the machine stands still each time.
PLAYS_MAX = 5


class Run(NamedTuple):
    """One case on one primitive, one face and one store."""

    store: str
    face: str
    primitive: str
    case: Case
    #: An operation that the store lacks, so that the store must refuse the case; or empty.
    lacks: str = ""

    def __str__(self) -> str:
        return f"{self.store}-{self.face}-{self.primitive}-{self.case.name}"

    def on(self, url: str) -> None:
        """Run the case on the store at this URL; it uses names that no other run uses.

        ``AssertionError`` if the sentence of the case isn't true there. ``StoreUnavailable`` on a
        machine that stood still shows nothing about the store, so the case is played again.
        """
        if self.case.alone:  # the case can fork, so no other thread may run
            self._often(url)
            return
        with pulse.felt(url):
            self._often(url)

    def _often(self, url: str) -> None:
        face = FACES[self.face]
        for number in range(1, PLAYS_MAX + 1):
            begun = now()
            try:
                face.run(
                    lambda: self._play(Arena(url, face, self.primitive, self.case.name)), LIMIT_S
                )
            except StoreUnavailable:
                if number == PLAYS_MAX or not unclear(begun):
                    raise
            else:
                return

    async def _play(self, at: Arena) -> None:
        try:
            if self.lacks:
                await self._refused(at)
                return
            for client in (at.locks, at.others):  # cases measure verbs, not connecting
                async with client.lock(at.fresh("first"), ttl=SHORT_S, auto_renew=False):
                    await client.inspect(at.name, exact=True)
            with promised(self.case.name) if self.case.promise else contextlib.nullcontext():
                await self.case.text(at)
            left = await at.left_behind()
            await at.swept()
            assert not left, f"after the case, claims are left: {left}"
        except LockLost as lost:
            if lost.reason is not Loss.BROKEN:
                raise
            raise PromiseBroken(
                f"{self.case.name}: another client's hold was freed: {lost}"
            ) from lost
        finally:
            await at.close()

    async def _refused(self, at: Arena) -> None:
        """Run the case to the point at which the store must refuse."""
        try:
            await self.case.text(at)
        except NotSupported:
            return
        raise AssertionError(f"{self.store} declares no {self.lacks}, but did not refuse")


def all_cases() -> list[Case]:
    """Return every case of the kit."""
    for module in pkgutil.iter_modules(cases.__path__):
        importlib.import_module(f"{cases.__name__}.{module.name}")
    return list(CASES.values())


def runs(*stores: str) -> list[Run]:
    """Return every run that these stores must pass: URL schemes, or ``scheme?options``."""
    found: list[Run] = []
    for store in stores:
        can = capabilities_of(store)
        for one in all_cases():
            for primitive in one.primitives:
                found += _runs(store, can, one, primitive)
    return found


def in_turn(everything: Iterable[Run]) -> list[Run]:
    """Return each case once on each store and face; its primitives take turns.

    Use it if all runs take too long: it returns a third of the runs, and always the same runs.
    Together these runs play each case on each of its primitives (if there are enough stores) and
    each primitive on each store, all about equally often. A primitive that the store refuses is
    chosen only if the case has no other.
    """
    choices: dict[tuple[str, str, str], list[Run]] = {}
    for run in everything:
        choices.setdefault((run.store, run.face, run.case.name), []).append(run)
    chosen: set[Run] = set()
    on, of = Counter[tuple[str, str]](), Counter[tuple[str, str]]()

    def rank(run: Run) -> tuple[bool, int, int]:
        return bool(run.lacks), of[run.case.name, run.primitive], on[run.store, run.primitive]

    # Cases with few supported primitives choose first: the later cases can balance these choices.
    for among in sorted(choices.values(), key=lambda runs: sum(not run.lacks for run in runs)):
        run = min(among, key=rank)
        chosen.add(run)
        on[run.store, run.primitive] += 1
        of[run.case.name, run.primitive] += not run.lacks
    return [run for runs in choices.values() for run in runs if run in chosen]


def capabilities_of(store: str) -> Capabilities:
    """Return the capabilities of a store with this scheme; ``scheme?options`` adds URL options."""
    scheme, _, options = store.partition("?")
    if not options:
        return find(f"{scheme}://")[0].CAPABILITIES
    module, url = find(f"{scheme}://localhost?{options}")
    return module.open_blocking(url).capabilities  # no connection yet: the first verb connects


def _runs(store: str, can: Capabilities, one: Case, primitive: str) -> Iterable[Run]:
    needs = [*one.needs, *filter(None, [PRIMITIVES[primitive].needs])]
    lacks = [need for need in needs if not getattr(can, need)]
    if set(lacks) - OPERATIONS:
        return
    for face in one.faces:
        yield Run(store, face, primitive, one, lacks[0] if lacks else "")
