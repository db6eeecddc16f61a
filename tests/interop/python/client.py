"""The interface of a lock client that takes part, of holdfast or of another library."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Locks(Protocol):
    """A client, from its opening to its end. Times are seconds."""

    def open(self, server: str, url: str, watchdog: float) -> None:
        """Connect: ``server`` is the address for other libraries, ``url`` for holdfast."""
        ...

    def acquire(self, name: str, kind: str, wait: float, lease: float) -> Any:
        """Return a hold, or None after ``wait`` seconds. The client renews a ``lease`` of 0."""
        ...

    def release(self, hold: Any) -> bool:
        """Release a hold; False if the client reports that it no longer held."""
        ...

    def steal(self, name: str, kind: str) -> str:
        """Try to release the hold of another client; return the words of the refusal, or ""."""
        ...

    def fence(self, hold: Any) -> int:
        """Return the number that grows with each grant, or 0 for a client without fences."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Loop:
    """An event loop in a separate thread; a client on it keeps running between two calls."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
