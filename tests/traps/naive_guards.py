"""Caches of computed values on Redis as they are often written, each with its mistake.

``between`` is called at the weak point. Never use one of these.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.traps.naive import Naive, SetNx

Compute = Callable[[], bytes]


class GetOrCompute(Naive):
    """Look; if it isn't there, compute and write it: whoever looks meanwhile does the same."""

    def get(self, name: str, compute: Compute) -> bytes:
        found = self.client.get(name)
        if isinstance(found, bytes):
            return found
        self.between()
        value = compute()
        self.client.set(name, value, ex=60)
        return value

    def invalidate(self, name: str) -> None:
        self.client.delete(name)


class SetNxThenPoll(Naive):
    """Who sets a mark computes; the others look again and again. ``lease``: of the mark, in ms."""

    def __init__(self, *given: object, lease: int = 30_000) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.lease = lease

    def get(self, name: str, compute: Compute, looks: int) -> bytes | None:
        for _ in range(looks):
            found = self.client.get(name)
            if isinstance(found, bytes):
                return found
            if self.client.set(name + ":busy", self.me, nx=True, px=self.lease):
                self.between()
                value = compute()
                self.client.set(name, value, ex=60)
                self.client.delete(name + ":busy")
                return value
        return None


class LockThenLook(SetNx):
    """All stand in line for a lock, and each finds, when it has it, that the value is there."""

    def get(self, name: str, compute: Compute) -> bytes | None:
        """None if it is somebody else's turn."""
        if not self.acquire(name + ":lock"):
            return None
        try:
            self.between()
            found = self.client.get(name)
            if isinstance(found, bytes):
                return found
            value = compute()
            self.client.set(name, value, ex=60)
            return value
        finally:
            self.client.delete(name + ":lock")
