"""Side connections for one event loop, for statements that must commit immediately."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

from ...errors import StoreUnavailable
from ...runtime.blocking import boottime
from ...runtime.timers.aio import later
from ..blocking.bound import Bound
from ..model import KEPT, Dialect, Late, Teller
from ..spares import Seen
from ..words import not_opened
from .teller import of_driver

T = TypeVar("T")


class AsyncSpare:
    """Side connections to one database, opened on demand; at most `KEPT` idle ones stay open.

    ``opener`` returns a connection in autocommit. The connections are closed when the event loop
    closes its asynchronous generators, which is the last step of ``asyncio.run``.
    """

    def __init__(self, dialect: Dialect, opener: Callable[[], Awaitable[Any]]) -> None:
        self.seen = Seen()
        self._dialect = dialect
        self._open = opener
        self._free: list[Any] = []
        self._end: AsyncGenerator[None] | None = None

    async def do(self, work: Callable[[Teller], Awaitable[T]], limit: float | None = None) -> T:
        """Do work over one connection; if a kept connection fails, do the work over another.

        ``limit``: maximum seconds; after that the connection is cut and `Late` is raised.
        """
        loop = asyncio.get_running_loop()
        end = None if limit is None else boottime() + limit
        while True:
            kept = self._free.pop() if self._free else None
            connection = await self._opened() if kept is None else kept
            # A time-out of asyncio doesn't help: psycopg then waits for the cancelled statement.
            try:
                bound = Bound(connection)
            except StoreUnavailable:
                await _close(connection)
                raise
            alarm = None if end is None else later(loop, end - boottime(), bound.cut)
            try:
                teller = of_driver(connection)
                if kept is None:
                    await self._dialect.settle(teller)
                answer = await work(teller)
            except BaseException as failure:
                await _close(connection)
                if limit is not None and bound.over and isinstance(failure, Exception):
                    raise Late(limit) from failure
                if kept is None or not isinstance(failure, Exception):
                    raise
                continue  # the server can have closed the kept connection while it was idle
            finally:
                if alarm is not None:
                    alarm.cancel()
                bound.close()
            if len(self._free) < KEPT and not bound.over:
                self._free.append(connection)
            else:
                await _close(connection)
            return answer

    async def close(self) -> None:
        """Close all kept connections; later work opens new ones."""
        while self._free:
            await _close(self._free.pop())

    async def _opened(self) -> Any:
        if self._end is None:
            self._end = self._until_the_end()
            await anext(self._end)
        try:
            return await self._open()
        except Exception as wrong:
            raise not_opened(wrong) from wrong

    async def _until_the_end(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self.close()


async def _close(connection: Any) -> None:
    with contextlib.suppress(Exception):
        closing = getattr(connection, "ensure_closed", connection.close)()
        if inspect.isawaitable(closing):
            await closing
