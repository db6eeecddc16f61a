"""The driver as the verbs need it: a small port, one for threads and one for an event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...errors import ConfigError, HoldfastError, StoreUnavailable
from .requests import No, Request


class Bell(Protocol):
    """Something to wait on that anybody may ring, from any thread."""

    def set(self) -> None:
        """Ring."""
        ...

    async def wait(self, seconds: float | None) -> bool:
        """Sleep until it has rung, or until the time-out has expired."""
        ...


class Port(Protocol):
    """How requests reach the ensemble."""

    #: What people see in messages; never with a password.
    label: str
    #: See `alarm`. It is called on any thread and doesn't block.
    on_alarm: Callable[[], None]

    def now(self) -> float:
        """Seconds that never jump."""
        ...

    def session(self) -> int:
        """The session that we have at present; 0 if there is none."""
        ...

    async def ask(self, requests: Sequence[Request], until: float) -> list[Any]:
        """Send them in this order, at once; one answer each, which may be a `No`.

        Connects first where that must be. ``StoreUnavailable`` if not all of them were answered
        by ``until``: then each of them may have been carried out or not, but none of them will be
        once a `Sync` that is sent later was answered.
        """
        ...

    def post(self, request: Request, done: Callable[[Any], None]) -> None:
        """Send one and don't wait: ``done(answer)`` is called on any thread, or never."""
        ...

    def bell(self) -> Bell:
        """A new bell."""
        ...

    def alarm(self, at: float) -> None:
        """Call ``on_alarm`` at this time, or soon after it; an earlier alarm replaces a later."""
        ...

    async def close(self) -> None:
        """End the session."""
        ...

    def forked(self) -> None:
        """We are the child of a fork: forget the parent's connection, and start lazily."""
        ...


def refused(answer: object, what: str, label: str) -> HoldfastError:
    """The error for a request that should not have been refused."""
    if answer is No.RIGHT:
        return ConfigError(
            f"{label} doesn't let us {what}: give the credentials that the nodes were made with, "
            "or other rights (holdfast doctor says which are needed)"
        )
    return StoreUnavailable(f"{label} did not {what}: {answer}")
