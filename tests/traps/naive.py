"""Locks on Redis as they are often written, each with the mistake for which it stands here.

``between`` is called at the weak point: there a test lets happen what sooner or later happens.
Never use one of these.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import redis

#: The lease that all of them want, seconds.
LEASE_S = 30


def nothing() -> None:
    """Nothing happens at the weak point: so everything looks well in a first test."""


class Naive:
    """What they share: a client, a value that says who holds, and the weak point."""

    def __init__(self, client: redis.Redis, between: Callable[[], object] = nothing) -> None:
        self.client = client
        self.me = secrets.token_hex(8).encode()
        self.between = between


class ExistsThenSet(Naive):
    """Look whether it is there, then set it: two commands, and room between them."""

    def acquire(self, name: str) -> bool:
        if self.client.exists(name):
            return False
        self.between()
        self.client.set(name, self.me, ex=LEASE_S)
        return True


class ExistsTheWrongWayRound(Naive):
    """The same with its test inverted: it refuses what is free, and grants what is held."""

    def acquire(self, name: str) -> bool:
        if not self.client.exists(name):
            return False
        self.between()
        self.client.set(name, self.me, ex=LEASE_S)
        return True


class SetThenExpire(Naive):
    """SETNX, then EXPIRE: who dies between the two has locked it for ever."""

    def acquire(self, name: str) -> bool:
        if not self.client.setnx(name, self.me):
            return False
        self.between()
        self.client.expire(name, LEASE_S)
        return True


class SetAndExpireTogether(Naive):
    """SETNX and EXPIRE in one MULTI: the EXPIRE is carried out for those too who didn't get it."""

    def acquire(self, name: str) -> bool:
        with self.client.pipeline(transaction=True) as pipe:
            pipe.setnx(name, self.me)
            pipe.expire(name, LEASE_S)
            got: bool = pipe.execute()[0]
        return got


class SetNx(Naive):
    """Acquired as it should be, on a server that may forget it."""

    def acquire(self, name: str) -> bool:
        return bool(self.client.set(name, self.me, nx=True, ex=LEASE_S))


class DeleteAnyway(SetNx):
    """The same, and released by a DEL of whatever is there."""

    def release(self, name: str) -> None:
        self.client.delete(name)


class GetThenDelete(DeleteAnyway):
    """It looks whether it is its own before it deletes it: two commands, and room between."""

    def release(self, name: str) -> None:
        if self.client.get(name) == self.me:
            self.between()
            self.client.delete(name)


class Timestamp(Naive):
    """The value says until when it holds, by the clock of whoever wrote it.

    Who finds one that is over deletes it and sets its own. ``clock`` is this machine's.
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
    """A queue as a list: RPUSH to put, LPOP to take. What was popped is nowhere."""

    def put(self, name: str, payload: bytes) -> None:
        self.client.rpush(name, payload)

    def take(self, name: str) -> bytes | None:
        payload = self.client.lpop(name)
        self.between()
        return payload if isinstance(payload, bytes) else None
