"""What a lock client must be able to do to take part, whoever wrote it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Locks(Protocol):
    """A client, from its opening to its end. Times are seconds."""

    def open(self, server: str, url: str, watchdog: float) -> None:
        """Connect: ``server`` is for those of others, ``url`` for holdfast's."""
        ...

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        """A hold, or None after that wait. ``lease`` 0: renewed by the client, as it does."""
        ...

    def release(self, hold: Any) -> bool:
        """Give it back; False if the client says that it wasn't held any more."""
        ...

    def steal(self, name: str, kind: str) -> str:
        """Try to release what somebody else holds: in which words it was refused."""
        ...

    def fence(self, hold: Any) -> int:
        """The number that grows with each grant, 0 where there is none."""
        ...

    def close(self) -> None:
        """End its connections."""
        ...


class Loop:
    """An event loop in a thread of its own: a client that lives there goes on between calls."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there to its end."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
