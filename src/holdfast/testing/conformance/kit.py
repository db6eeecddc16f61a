"""Which runs there are: every case x its primitives x its faces, per store.

A case that a store can't pass because it lacks an operation (``Capabilities`` says so) is run all
the same, and must end with ``NotSupported``. A case about a property that a store doesn't have,
such as fairness, isn't run there. Nothing is left out in any other way.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import NamedTuple

from ...core.model import Capabilities
from ...errors import NotSupported
from ...url import find
from ..faces import FACES
from . import cases
from .arena import PRIMITIVES, Arena
from .registry import CASES, OPERATIONS, Case

#: A case may take this long before it counts as hanging.
LIMIT_S = 60.0


class Run(NamedTuple):
    """One case on one primitive, one face and one store."""

    store: str
    face: str
    primitive: str
    case: Case
    #: The operation that the store lacks, so that the case must be refused.
    lacks: str = ""

    def __str__(self) -> str:
        return f"{self.store}-{self.face}-{self.primitive}-{self.case.name}"

    def on(self, url: str) -> None:
        """Run it on the store at this URL; it uses names that nobody else uses.

        ``AssertionError`` if what the case says isn't true there.
        """
        face = FACES[self.face]
        face.run(lambda: self._play(Arena(url, face, self.primitive, self.case.name)), LIMIT_S)

    async def _play(self, at: Arena) -> None:
        try:
            if self.lacks:
                await self._refused(at)
                return
            await self.case.text(at)
            left = await at.left_behind()
            assert not left, f"the case is over, but claims are left: {left}"
        finally:
            await at.close()

    async def _refused(self, at: Arena) -> None:
        """The case comes to the point at which the store must refuse."""
        try:
            await self.case.text(at)
        except NotSupported:
            return
        raise AssertionError(f"{self.store} says that it has no {self.lacks}, but did not refuse")


def all_cases() -> list[Case]:
    """Every case of the kit."""
    for module in pkgutil.iter_modules(cases.__path__):
        importlib.import_module(f"{cases.__name__}.{module.name}")
    return list(CASES.values())


def runs(*stores: str) -> list[Run]:
    """Every run that these stores (URL schemes) must pass."""
    found: list[Run] = []
    for store in stores:
        can = find(f"{store}://")[0].CAPABILITIES
        for one in all_cases():
            for primitive in one.primitives:
                found += _runs(store, can, one, primitive)
    return found


def _runs(store: str, can: Capabilities, one: Case, primitive: str) -> Iterable[Run]:
    needs = [*one.needs, *filter(None, [PRIMITIVES[primitive].needs])]
    lacks = [need for need in needs if not getattr(can, need)]
    if set(lacks) - OPERATIONS:
        return
    for face in one.faces:
        yield Run(store, face, primitive, one, lacks[0] if lacks else "")
