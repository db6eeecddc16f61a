"""Common implementations of locks on Redis, each with one mistake.

``between`` is called at the weak point. A test lets something happen there that will happen one day
in production. Never use one of these.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import redis

#: Seconds of the lease that all of them request.
LEASE_S = 30


class Naive:
    """The common parts: a client, a value that names the holder, and the weak point."""

    def __init__(
        self, client: redis.Redis, between: Callable[[], object] = lambda: None, ahead: float = 0
    ) -> None:
        self.client = client
        self.me = secrets.token_hex(8).encode()
        self.between = between
        #: Seconds by which this machine's clock is wrong.
        self.ahead = ahead


class ExistsThenSet(Naive):
    """Check whether the key exists, then set it: two commands, with a gap between them."""

    def acquire(self, name: str) -> bool:
        if self.client.exists(name):
            return False
        self.between()
        return bool(self.client.set(name, self.me, ex=LEASE_S))


class SetThenExpire(Naive):
    """SETNX, then EXPIRE: a client that dies between the two leaves a lock that never expires."""

    def acquire(self, name: str) -> bool:
        if not self.client.setnx(name, self.me):
            return False
        self.between()
        return bool(self.client.expire(name, LEASE_S))


class SetAndExpireTogether(Naive):
    """SETNX and EXPIRE in one MULTI: a client that didn't get the lock still extends its lease."""

    def acquire(self, name: str) -> bool:
        with self.client.pipeline(transaction=True) as pipe:
            pipe.setnx(name, self.me)
            pipe.expire(name, LEASE_S)
            return bool(pipe.execute()[0])


class SetNx(Naive):
    """A correct acquire, on a server that can forget it."""

    def acquire(self, name: str) -> bool:
        return bool(self.client.set(name, self.me, nx=True, ex=LEASE_S))


class DeleteAnyway(SetNx):
    """The same acquire, and a release that deletes any client's key."""

    def release(self, name: str) -> None:
        self.client.delete(name)


class GetThenDelete(SetNx):
    """Compare the value before the DEL: two commands, with a gap between them."""

    def release(self, name: str) -> None:
        if self.client.get(name) == self.me:
            self.between()
            self.client.delete(name)


class Timestamp(Naive):
    """The value is the time when the lock expires, by the clock of its writer.

    A client that finds an expired value deletes it and sets its own.
    """

    def acquire(self, name: str) -> bool:
        if self._set(name):
            return True
        until = self.client.get(name)
        if until is not None and float(until) < time.time() + self.ahead:
            self.between()
            self.client.delete(name)
            return self._set(name)
        return False

    def _set(self, name: str) -> bool:
        return bool(self.client.setnx(name, time.time() + self.ahead + LEASE_S))


class LockThenLook(SetNx):
    """Take a lock for each read; a caller that gets the lock then finds the value."""

    def get(self, name: str) -> bytes | None:
        """Return the value, or None if another client holds the lock."""
        if not self.acquire(name + ":lock"):
            return None
        self.between()
        value = self.client.get(name)
        self.client.delete(name + ":lock")
        return value if isinstance(value, bytes) else None
