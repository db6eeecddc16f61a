"""Tests of queues and guards that are written once for both faces, on a memory store.

A ``conftest.py`` imports the fixtures and the hook. Such a test is a coroutine function; it takes
the fixture ``at`` and runs on each face, or takes ``aio`` or ``sync`` and runs on that face.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from holdfast.stores.memory import blocking as memory
from holdfast.testing.conformance.struck import Struck
from holdfast.testing.faces import FACES, Actor, Face, Flag

#: Maximum seconds for a test on the memory store, and for one with servers.
BOUND_S, SERVERS_S = 60.0, 110.0
Hook = Callable[[], Awaitable[None]]


class Flaky(Struck):
    """Also pauses tasks at each request, calls hooks, and keeps all requests for late copies."""

    def __init__(self, verbs: Any) -> None:
        super().__init__(verbs)
        #: Every request that arrived.
        self.sent: list[tuple[str, Callable[[], Any]]] = []
        #: True if tasks pause before and after each request.
        self.pauses = False
        #: By verb: a hook that is awaited once, before the next request is sent or after its reply.
        self.before: dict[str, Hook] = {}
        self.after: dict[str, Hook] = {}

    async def _ask(self, name: str, verb: Callable[..., Any], *given: Any, **more: Any) -> Any:
        async def arrives(*given: Any, **more: Any) -> Any:
            self.sent.append((name, partial(verb, *given, **more)))
            return await verb(*given, **more)

        await self._stop(self.before, name)
        try:
            return await super()._ask(name, arrives, *given, **more)
        finally:
            await self._stop(self.after, name)

    async def _stop(self, hooks: dict[str, Hook], name: str) -> None:
        if hook := hooks.pop(name, None):
            await hook()
        if self.pauses:
            await asyncio.sleep(0)

    def copy(self, verb: str, number: int = 0) -> Callable[[], Any]:
        """Return a copy of the first request of a verb, or of a later one."""
        return [one for name, one in self.sent if name == verb][number]


def behind(client: Any, part: str) -> Flaky:
    """Put `Flaky` between this client and its queues or guards."""
    store = client._ctx.store
    flaky = Flaky(getattr(store, part))
    setattr(store, part, flaky)
    return flaky


class Source:
    """The data source behind a guard."""

    def __init__(self, face: Face) -> None:
        self.version = 0
        self.asked = 0
        #: Set when `slow` has begun; `go` lets it continue.
        self.begun, self.go = face.flag(), face.flag()

    async def compute(self) -> int:
        self.asked += 1
        return self.version

    async def slow(self) -> int:
        """Return the current version, but not before `go`."""
        self.begun.set()
        await self.go.wait()
        return await self.compute()

    async def fail(self) -> int:
        raise LookupError("no value")


class At:
    """The store, its clock and the helpers that a test gets."""

    def __init__(self, face: Face) -> None:
        self.face = face
        self.space = f"test-{os.urandom(8).hex()}"
        self.source = Source(face)
        self._clients: list[Any] = []

    def client(self, **options: Any) -> Any:
        """Return one more client of the store."""
        self._clients.append(self.face.client(f"memory://{self.space}", **options))
        return self._clients[-1]

    def queue(self, **options: Any) -> Any:
        """Return the queue of this test, of one more client."""
        return self.client().queue("q", **options)

    def flaky(self, **options: Any) -> tuple[Any, Flaky]:
        """Return the queue, and the `Flaky` in front of its store."""
        client = self.client()
        return client.queue("q", **options), behind(client, "queues")

    def guard(self, **options: Any) -> Any:
        """Return the guard of this test, of one more client."""
        return self.client().guard("g", **{"ttl": 60, **options})

    def gated(self, **options: Any) -> tuple[Any, Flaky]:
        """Return the guard, and the `Flaky` in front of its store."""
        client = self.client()
        return client.guard("g", **{"ttl": 60, **options}), behind(client, "guards")

    def pass_(self, seconds: float) -> None:
        """Let the clock of the store jump ahead, as if all clients had paused for these seconds."""
        memory.space(self.space).skew += seconds

    def start(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Actor:
        """Run this at the same time as the test."""
        return self.face.start(lambda: work(*args))

    def flag(self) -> Flag:
        return self.face.flag()

    async def taken(self, queue: Any) -> Any:
        """Put the job "a" of the group "g", and take it."""
        await queue.put("a", group="g")
        return await queue.take(timeout=5)

    def held(self, gate: Flaky) -> tuple[Flag, Flag]:
        """Hold up the reply to the next read.

        Return two flags. The first is set when the store has replied; set the second to pass the
        reply on.
        """
        answered, go = self.flag(), self.flag()

        async def hold() -> None:
            answered.set()
            await go.wait()

        gate.after["read"] = hold
        return answered, go

    async def until(self, true: Callable[[], Any], what: str) -> None:
        """Wait until this function, or coroutine function, returns a true value."""
        for _ in range(3000):
            found = true()
            if await found if inspect.isawaitable(found) else found:
                return
            await self.face.sleep(0.005)
        raise AssertionError(f"still not: {what}")

    async def seated(self, guard: Any, many: int) -> None:
        """Wait until ``many`` callers wait for a value that another caller fetches."""

        def there() -> bool:
            flight = guard._shared.flights.get("")
            return flight is not None and len(flight._seats) >= many

        await self.until(there, f"{many} wait")

    async def stands(self, **expected: int) -> None:
        """Wait until the counts of the queue have these values."""
        queue = self.queue()

        async def so() -> bool:
            record = (await queue.stats())._asdict()
            return all(record[name] == value for name, value in expected.items())

        await self.until(so, f"{expected}, but {await queue.stats()}")

    def play(self, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a test within the bound, close its clients, and remove its store."""

        async def main() -> None:
            await test()
            for client in self._clients:
                await client.close()

        try:
            self.face.run(main, BOUND_S)
        finally:
            for name in [one for one in memory._spaces if one.startswith("test-")]:
                memory._spaces.pop(name)


@pytest.fixture(params=list(FACES))
def at(request: pytest.FixtureRequest) -> At:
    """The helpers of a test that runs on each face."""
    return At(FACES[request.param])


@pytest.fixture
def aio() -> At:
    """The helpers of a test of asyncio tasks."""
    return At(FACES["aio"])


@pytest.fixture
def sync() -> At:
    """The helpers of a test of threads."""
    return At(FACES["sync"])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function on its face, or on the face of its helpers."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    test = partial(pyfuncitem.obj, **given)
    helpers = next((one for one in given.values() if isinstance(one, At)), None)
    if helpers is None:
        given["face"].run(test, SERVERS_S)
    else:
        helpers.play(test)
    return True
