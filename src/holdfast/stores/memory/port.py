"""The port of the memory store: the shared state under its lock, and mailboxes of waiters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from .jobs import Queue
from .line import Lines
from .values import Values

T = TypeVar("T")


class Mailbox(Protocol):
    """A mailbox, in which one waiter receives its wake-up."""

    def poke(self, fence: int) -> None:
        """Wake the waiter: its claim was granted, a job may be due, or a value is there. Any thread
        can call this."""
        ...

    async def wait(self, seconds: float) -> int | None:
        """Return the fence of the grant, or None if no wake-up came within ``seconds``."""
        ...


class Port(Protocol):
    """The shared state under its lock, and mailboxes."""

    space: str

    def call(self, act: Callable[[Lines, float], T]) -> T:
        """Run `act` on the lines under the lock, with the current time."""
        ...

    def queue(self, name: str, act: Callable[[Queue, float], T]) -> tuple[T, list[Any]]:
        """Run `act` on one queue under the lock; return its result, and the mailboxes to wake."""
        ...

    def queue_names(self) -> list[str]:
        """The names of all queues."""
        ...

    def values(self, act: Callable[[Values, float], T]) -> tuple[T, list[Any]]:
        """Run `act` on the values under the lock; return its result, and the mailboxes to wake."""
        ...

    def mailbox(self) -> Mailbox:
        """Return a new mailbox for this kind of runtime."""
        ...

    def forked(self) -> None:
        """In the child of a fork: start with no data."""
        ...
