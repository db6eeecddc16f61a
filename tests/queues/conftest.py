"""The environment of a queue test: both faces, a memory store, and its clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.stores.memory import blocking as memory
from holdfast.testing.faces import FACES, Actor, Face
from tests.queues.flaky import FlakyQueues, behind

#: Maximum seconds for a test.
BOUND_S = 60.0


class At:
    """The store, its clock and the helpers that a case gets."""

    def __init__(self, face: Face) -> None:
        self.face = face
        self.space = f"test-{os.urandom(8).hex()}"
        self._clients: list[Any] = []

    def client(self, **options: Any) -> Any:
        """Return one more client of the store."""
        made = self.face.client(f"memory://{self.space}", **options)
        self._clients.append(made)
        return made

    def flaky(self, **options: Any) -> tuple[Any, FlakyQueues]:
        """Return a queue, and the `FlakyQueues` in front of its store."""
        client = self.client()
        return client.queue("q", **options), behind(client)

    def queue(self, **options: Any) -> Any:
        """Return the same queue, of another client."""
        return self.client().queue("q", **options)

    def pass_(self, seconds: float) -> None:
        """Let the clock of the store jump ahead, as if all clients had paused for these seconds."""
        memory.space(self.space).skew += seconds

    def start(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Actor:
        """Run this at the same time as the test."""
        return self.face.start(lambda: work(*args))

    async def until(self, true: Callable[[], Coroutine[Any, Any, Any]], what: str) -> Any:
        """Wait until this returns a true value, and return that value."""
        for _ in range(3000):
            if found := await true():
                return found
            await self.face.sleep(0.005)
        raise AssertionError(f"still not: {what}")

    async def stands(self, **expected: int) -> None:
        """Wait until the counts of the queue have these values."""
        queue = self.queue()

        async def so() -> bool:
            record = (await queue.stats())._asdict()
            return all(record[name] == value for name, value in expected.items())

        await self.until(so, f"{expected}, but {await queue.stats()}")

    async def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            await client.close()


Case = Callable[[At], Coroutine[Any, Any, None]]


@pytest.fixture(params=["sync", "aio"])
def run(request: pytest.FixtureRequest) -> Callable[[Case], None]:
    """Run a test that is written once, on each face."""
    return lambda case: run_on(FACES[request.param], case)


@pytest.fixture
def run_aio() -> Callable[[Case], None]:
    """Run a test of asyncio tasks."""
    return lambda case: run_on(FACES["aio"], case)


def run_on(face: Face, case: Case) -> None:
    """Run a test on this face."""

    async def main() -> None:
        at = At(face)
        await case(at)
        await at.close()

    try:
        face.run(main, BOUND_S)
    finally:
        for name in [one for one in memory._spaces if one.startswith("test-")]:
            memory._spaces.pop(name)
