"""The runs of the server kit: the rows of the fault matrix and the operations, on each face."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple

from ...runtime.blocking import run_sync
from ..faces import FACES
from ..faults import Proxy
from . import matrix
from .bench import Bench, Floor
from .operations import OPERATIONS, a_restart_grants_nothing_twice

#: Maximum seconds of a run.
LIMIT_S = 120.0
VERBS = ("join", "leave", "renew", "turn", "join_free", "leave_all")


class Run(NamedTuple):
    """One check on one face."""

    face: str
    name: str
    #: The row of the matrix that this run plays; None: it is an operation.
    trouble: matrix.Trouble | None
    text: Callable[[Floor], Awaitable[None]]

    def __str__(self) -> str:
        return f"{self.face}-{self.name}"

    @property
    def in_main(self) -> bool:
        """True if ``on`` needs the main thread: for a signal, or for the start of a server."""
        interrupted = self.trouble is not None and self.trouble.end == "interrupted"
        return interrupted or self.text is a_restart_grants_nothing_twice

    def on(self, bench: Bench) -> None:
        """Check it on this server; ``AssertionError`` if it isn't true there."""
        face = FACES[self.face]
        with Proxy(bench.host, bench.port, bench.wire) as proxy:
            floor = Floor(bench, face, proxy)

            async def main() -> None:
                await self.text(floor)

            if not self.in_main:
                face.run(main, LIMIT_S)
            elif self.face == "aio":
                asyncio.run(main())
            else:
                run_sync(main())


def runs(verbs: Collection[str] = VERBS) -> list[Run]:
    """Return every run: a matrix of some hundred rows for these verbs, and the operations."""
    found = []
    for name in FACES:
        rows = _rows(name, verbs)
        found += [Run(name, str(row), row, functools.partial(matrix.play, row)) for row in rows]
        found += [Run(name, one.__name__, None, one) for one in OPERATIONS]
    return found


def _rows(face: str, verbs: Collection[str]) -> list[matrix.Trouble]:
    return [
        matrix.Trouble(verb, fault, again, end)
        for verb in VERBS
        if verb in verbs
        for fault in matrix.FAULTS
        for again in matrix.AGAIN
        for end in matrix.ENDS
        # A thread can't be cancelled, and Ctrl-C cancels a task; a release and a renewal take no
        # time-out, and a waiter with little time asks no question.
        if face != {"cancelled": "sync", "interrupted": "aio"}.get(end)
        and not (end == "brief" and verb in ("leave", "renew", "leave_all", "turn"))
    ]
