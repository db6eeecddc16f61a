"""The environment of a guard test: both faces, a memory store, and its clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.stores.memory import blocking as memory
from holdfast.testing.faces import FACES, Actor, Face, Flag
from tests.guard.gated import GatedGuards, behind

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

    def guard(self, name: str = "g", **options: Any) -> Any:
        """Return a guard of one more client."""
        return self.client().guard(name, **{"ttl": 60, **options})

    def gated(self, **options: Any) -> tuple[Any, GatedGuards]:
        """Return a guard of one more client, and the `GatedGuards` in front of its store."""
        client = self.client()
        return client.guard("g", **{"ttl": 60, **options}), behind(client)

    def pass_(self, seconds: float) -> None:
        """Let the clock of the store jump ahead, as if all clients had paused for these seconds."""
        memory.space(self.space).skew += seconds

    def start(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Actor:
        """Run this at the same time as the test."""
        return self.face.start(lambda: work(*args))

    def flag(self) -> Flag:
        """Return a flag that can be set and waited for."""
        return self.face.flag()

    def held(self, gate: GatedGuards) -> tuple[Flag, Flag]:
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
        """Wait until this returns a true value."""
        for _ in range(3000):
            if true():
                return
            await self.face.sleep(0.005)
        raise AssertionError(f"still not: {what}")

    async def seated(self, guard: Any, many: int, key: str = "") -> None:
        """Wait until ``many`` callers wait for a value that another caller fetches."""

        def there() -> bool:
            flight = guard._shared.flights.get(key)
            return flight is not None and len(flight._seats) >= many

        await self.until(there, f"{many} wait")

    async def close(self) -> None:
        """Close all clients."""
        for client in self._clients:
            await client.close()


Case = Callable[[At], Coroutine[Any, Any, None]]
Run = Callable[[Case], None]


@pytest.fixture(params=list(FACES))
def run(request: pytest.FixtureRequest) -> Callable[[Case], None]:
    """Run a case on each face, within a bound."""
    face = FACES[request.param]

    def play(case: Case) -> None:
        async def main() -> None:
            at = At(face)
            try:
                await case(at)
            finally:
                await at.close()

        face.run(main, BOUND_S)

    return play


class Source:
    """The data source behind a guard."""

    def __init__(self) -> None:
        self.version = 0
        self.asked = 0

    async def compute(self) -> int:
        """Return the current version."""
        self.asked += 1
        return self.version
