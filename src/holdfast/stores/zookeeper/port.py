"""The port to the driver that the verbs use; one exists for threads and one for an event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...errors import ConfigError, HoldfastError, StoreUnavailable
from .requests import No, Request


class Bell(Protocol):
    """Wakes one waiter; any thread may set it."""

    def set(self) -> None:
        """Wake the waiter, now or when it begins to wait."""
        ...

    async def wait(self, seconds: float | None) -> bool:
        """Sleep until the bell is set (True) or until the time-out has expired (False)."""
        ...


class Port(Protocol):
    """Sends requests to the ensemble."""

    #: The store's name in messages, never with a password.
    label: str
    #: The function that `alarm` calls, on any thread. It must not block.
    on_alarm: Callable[[], None]

    def now(self) -> float:
        """Return the seconds of a clock that never jumps."""
        ...

    def session(self) -> int:
        """Return the id of our current session; 0 if there is none."""
        ...

    async def ask(self, requests: Sequence[Request], until: float) -> list[Any]:
        """Send all requests together, in this order; return one answer for each.

        The answer to a refused request is a `No`. Connects first if needed. Raises
        ``StoreUnavailable`` if an answer is missing at ``until``: then each request may have been
        carried out or not. Once a later `Sync` is answered, none of them can be carried out later.
        """
        ...

    def post(self, request: Request, done: Callable[[Any], None]) -> None:
        """Send one request without waiting: ``done(answer)`` is called on any thread, or never."""
        ...

    def bell(self) -> Bell:
        """Return a new bell."""
        ...

    def alarm(self, at: float) -> None:
        """Call ``on_alarm`` at this time or soon after; an earlier alarm replaces a later one."""
        ...

    async def close(self) -> None:
        """End the session."""
        ...

    def forked(self) -> None:
        """Forget the parent's connection, in the child of a fork; connect again when needed."""
        ...


def refused(answer: object, what: str, label: str) -> HoldfastError:
    """Return the error for a request that the server refused unexpectedly."""
    if answer is No.RIGHT:
        return ConfigError(
            f"{label} doesn't let us {what}: give the credentials that the nodes were made with, "
            "or other rights (holdfast doctor lists the rights that are needed)"
        )
    return StoreUnavailable(f"{label} did not {what}: {answer}")
