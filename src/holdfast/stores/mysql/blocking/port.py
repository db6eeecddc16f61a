"""The port for threads: a pool of connections.

A verb takes the connection that was used last, or makes one, and gives it back after the answer.
Whatever goes wrong in between, Ctrl-C included, the connection is closed: an answer that is still
under way is never read by another request. No lock is held anywhere; no thread is started, but to
connect as an engine does that was given.
"""

from __future__ import annotations

import time
from collections import deque

from ..config import Settings
from ..exchange import Exchange
from .link import ThreadLink, dial

#: A connection that was idle for so long is looked at before it is used.
FRESH_S = 1.0
#: The pool keeps no more idle connections than this.
IDLE_MAX = 64
#: What a forked child has of its parent: kept, because its end would be heard by the server.
_of_the_parent: list[object] = []


class ThreadPort(Exchange[ThreadLink]):
    """See :class:`holdfast.stores.mysql.store.Port`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._idle: deque[ThreadLink] = deque()
        self._closed = False

    async def _take(self, within: float) -> ThreadLink:
        now = time.monotonic()
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return dial(self._settings, within)
            if now - link.used < FRESH_S or not link.stale():
                return link
            link.close()

    def _give(self, link: ThreadLink) -> None:
        if self._closed or len(self._idle) >= IDLE_MAX:
            link.close()
        else:
            self._idle.append(link)

    def _drop(self, link: ThreadLink) -> None:
        link.close()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def now(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()

    async def close(self) -> None:
        """End the connections; those in use are ended when they are given back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def forked(self) -> None:
        """In the child nothing of this is ours."""
        _of_the_parent.append(self._idle)
        self._idle = deque()
