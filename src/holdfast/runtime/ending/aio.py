"""The sessions of one client that the server has not ended yet, for one event loop."""

from __future__ import annotations

import asyncio
from asyncio.events import _get_running_loop
from collections.abc import Callable

from ..blocking import boottime
from ..timers.aio import later
from .blocking import Ending


class Endings:
    """The ending sessions of one client. ``over`` is called when a session no longer counts."""

    def __init__(self, over: Callable[[], None]) -> None:
        self._over = over
        self._there: set[Ending] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._there)

    def add(self, ending: Ending) -> None:
        """Count this session."""
        loop = _get_running_loop()
        if self._closed or loop is None or ending.over:  # None: the loop has ended
            ending.end()
            return
        self._there.add(ending)
        loop.add_reader(ending.fd, self._look, ending)
        later(loop, max(0.0, ending.until - boottime()), self._forget, ending)

    def _look(self, ending: Ending) -> None:
        if ending.over:
            self._forget(ending)

    def _forget(self, ending: Ending) -> None:
        if ending in self._there:
            self._there.discard(ending)
            asyncio.get_running_loop().remove_reader(ending.fd)
            ending.end()
            self._over()

    def close(self) -> None:
        """Count no session, now or later."""
        self._closed = True
        for ending in list(self._there):
            self._forget(ending)

    def abandon(self) -> None:
        """Like `close`, for a loop that no longer runs."""
        self._closed = True
        self._there.clear()
