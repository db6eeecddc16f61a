"""Side connections for threads, for statements that must commit immediately."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ...runtime import fork
from ...runtime.blocking import boottime
from ..model import KEPT, Dialect, Late, Teller
from ..spares import Seen
from ..words import not_opened
from .bound import Watched

T = TypeVar("T")


class Spare:
    """Side connections to one database, opened on demand; at most `KEPT` idle ones stay open.

    ``opener`` returns a connection in autocommit. The child of a fork keeps the parent's
    connections open and unused, because closing one there would end the parent's session.
    """

    def __init__(
        self, dialect: Dialect, opener: Callable[[], Any], teller: Callable[[Any], Teller]
    ) -> None:
        self.seen = Seen()
        self._dialect = dialect
        self._open = opener
        self._teller = teller
        self._free: list[Any] = []
        self._of_parent: list[Any] = []
        fork.register(self)

    async def do(self, work: Callable[[Teller], Awaitable[T]], limit: float | None = None) -> T:
        """Do work over one connection; if a kept connection fails, do the work over another.

        ``limit``: maximum seconds; after that the connection is cut and `Late` is raised.
        """
        end = None if limit is None else boottime() + limit
        while True:
            kept = self._kept()
            connection = self._opened() if kept is None else kept
            bound = None
            try:
                bound = None if end is None else Watched(connection, end)
                with contextlib.nullcontext() if bound is None else bound:
                    teller = self._teller(connection)
                    if kept is None:
                        await self._dialect.settle(teller)
                    answer = await work(teller)
            except BaseException as failure:
                _close(connection)
                if limit and bound and bound.over and isinstance(failure, Exception):
                    raise Late(limit) from failure
                if kept is None or not isinstance(failure, Exception):
                    raise
                continue  # the server can have closed the kept connection while it was idle
            if bound is not None and bound.over:
                _close(connection)
            else:
                self._give_back(connection)
            return answer

    def close(self) -> None:
        """Close all kept connections; later work opens new ones."""
        while (kept := self._kept()) is not None:
            _close(kept)

    def _kept(self) -> Any:
        try:
            return self._free.pop()
        except IndexError:
            return None

    def _opened(self) -> Any:
        try:
            return self._open()
        except Exception as wrong:
            raise not_opened(wrong) from wrong

    def _give_back(self, connection: Any) -> None:
        if len(self._free) < KEPT:
            self._free.append(connection)
        else:
            _close(connection)

    def forked(self) -> None:
        """Stop using the parent's connections, in the child of a fork."""
        self._of_parent += self._free
        self._free = []


def _close(connection: Any) -> None:
    with contextlib.suppress(Exception):
        connection.close()
