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


def nothing() -> None:
    """Do nothing at the weak point, so that a first test succeeds."""


class Naive:
    """The common parts: a client, a value that names the holder, and the weak point."""

    def __init__(self, client: redis.Redis, between: Callable[[], object] = nothing) -> None:
        self.client = client
        self.me = secrets.token_hex(8).encode()
        self.between = between


class ExistsThenSet(Naive):
    """Check whether the key exists, then set it: two commands, with a gap between them."""

    def acquire(self, name: str) -> bool:
        if self.client.exists(name):
            return False
        self.between()
        self.client.set(name, self.me, ex=LEASE_S)
        return True


class ExistsTheWrongWayRound(Naive):
    """The same with an inverted check: it refuses a free name, and grants a held one."""

    def acquire(self, name: str) -> bool:
        if not self.client.exists(name):
            return False
        self.between()
        self.client.set(name, self.me, ex=LEASE_S)
        return True


class SetThenExpire(Naive):
    """SETNX, then EXPIRE: a client that dies between the two leaves a lock that never expires."""

    def acquire(self, name: str) -> bool:
        if not self.client.setnx(name, self.me):
            return False
        self.between()
        self.client.expire(name, LEASE_S)
        return True


class SetAndExpireTogether(Naive):
    """SETNX and EXPIRE in one MULTI: a client that didn't get the lock still extends its lease."""

    def acquire(self, name: str) -> bool:
        with self.client.pipeline(transaction=True) as pipe:
            pipe.setnx(name, self.me)
            pipe.expire(name, LEASE_S)
            got: bool = pipe.execute()[0]
        return got


class SetNx(Naive):
    """A correct acquire, on a server that can forget it."""

    def acquire(self, name: str) -> bool:
        return bool(self.client.set(name, self.me, nx=True, ex=LEASE_S))


class DeleteAnyway(SetNx):
    """The same acquire, and a release that deletes any client's key."""

    def release(self, name: str) -> None:
        self.client.delete(name)


class GetThenDelete(DeleteAnyway):
    """Compare the value before the DEL: two commands, with a gap between them."""

    def release(self, name: str) -> None:
        if self.client.get(name) == self.me:
            self.between()
            self.client.delete(name)


class Timestamp(Naive):
    """The value is the time when the lock expires, by the clock of its writer.

    A client that finds an expired value deletes it and sets its own. ``clock`` is this machine's.
    """

    def __init__(
        self,
        client: redis.Redis,
        between: Callable[[], object] = nothing,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(client, between)
        self.clock = clock

    def acquire(self, name: str) -> bool:
        if self._set(name):
            return True
        until = self.client.get(name)
        if until is not None and float(until) < self.clock():
            self.between()
            self.client.delete(name)
            return self._set(name)
        return False

    def _set(self, name: str) -> bool:
        return bool(self.client.setnx(name, self.clock() + LEASE_S))


class PopThenWork(Naive):
    """A queue as a list: RPUSH to put, LPOP to take. A popped job is stored nowhere."""

    def put(self, name: str, payload: bytes) -> None:
        self.client.rpush(name, payload)

    def take(self, name: str) -> bytes | None:
        payload = self.client.lpop(name)
        self.between()
        return payload if isinstance(payload, bytes) else None
