"""The port to the driver that the verbs use; one exists for threads and one for an event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...errors import ConfigError, HoldfastError, StoreUnavailable
from .requests import No, Request


class Bell(Protocol):
    """An event to wait for, which any thread may set."""

    def set(self) -> None:
        """Ring."""
        ...

    async def wait(self, seconds: float | None) -> bool:
        """Sleep until it has rung, or until the time-out has expired."""
        ...


class Port(Protocol):
    """Sends requests to the ensemble."""

    #: The store's name in messages, never with a password.
    label: str
    #: See `alarm`. It is called on any thread and doesn't block.
    on_alarm: Callable[[], None]

    def now(self) -> float:
        """Seconds of a clock that never jumps."""
        ...

    def session(self) -> int:
        """Our current session; 0 if there is none."""
        ...

    async def ask(self, requests: Sequence[Request], until: float) -> list[Any]:
        """Send the requests in this order, at once; one answer each, which may be a `No`.

        Connects first if needed. ``StoreUnavailable`` if not all of them were answered by
        ``until``: then each of them may have been carried out or not. Once a later `Sync` was
        answered, none of them is carried out after that.
        """
        ...

    def post(self, request: Request, done: Callable[[Any], None]) -> None:
        """Send one without waiting: ``done(answer)`` is called on any thread, or never."""
        ...

    def bell(self) -> Bell:
        """A new bell."""
        ...

    def alarm(self, at: float) -> None:
        """Call ``on_alarm`` at this time or soon after; an earlier alarm replaces a later one."""
        ...

    async def close(self) -> None:
        """End the session."""
        ...

    def forked(self) -> None:
        """Forget the parent's connection, in the child of a fork, and start lazily."""
        ...


def refused(answer: object, what: str, label: str) -> HoldfastError:
    """The error for a request that should not have been refused."""
    if answer is No.RIGHT:
        return ConfigError(
            f"{label} doesn't let us {what}: give the credentials that the nodes were made with, "
            "or other rights (holdfast doctor lists the rights that are needed)"
        )
    return StoreUnavailable(f"{label} did not {what}: {answer}")
