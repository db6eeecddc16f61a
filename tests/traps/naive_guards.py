"""Common implementations of cached values on Redis, each with its mistake.

``between`` is called at the weak point. Never use one of these.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.traps.naive import Naive, SetNx

Compute = Callable[[], bytes]


class GetOrCompute(Naive):
    """Read the value; if it is missing, compute and write it. Every reader before the write does
    the same."""

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
    """Set a mark and compute; the other callers poll. ``lease``: the lease of the mark, in ms."""

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
    """Take a lock for each read; a caller that gets the lock then finds the value."""

    def get(self, name: str, compute: Compute) -> bytes | None:
        """Return the value, or None if another client holds the lock."""
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
