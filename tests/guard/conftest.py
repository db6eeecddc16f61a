"""A world for a test of guards: both faces, a store in memory, its clock."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.stores.memory import blocking as memory
from holdfast.testing.faces import FACES, Actor, Face, Flag
from tests.guard.gated import GatedGuards, behind

#: No test takes longer, seconds.
BOUND_S = 60.0


class At:
    """What a test has at hand."""

    def __init__(self, face: Face) -> None:
        self.face = face
        self.space = f"test-{os.urandom(8).hex()}"
        self._clients: list[Any] = []

    def client(self, **options: Any) -> Any:
        """One more client of the store."""
        made = self.face.client(f"memory://{self.space}", **options)
        self._clients.append(made)
        return made

    def guard(self, name: str = "g", **options: Any) -> Any:
        """A guard of one more client."""
        return self.client().guard(name, **{"ttl": 60, **options})

    def gated(self, **options: Any) -> tuple[Any, GatedGuards]:
        """A guard of one more client, and the gate before its store."""
        client = self.client()
        return client.guard("g", **{"ttl": 60, **options}), behind(client)

    def pass_(self, seconds: float) -> None:
        """Let time be gone for the store, as for clients that were stopped meanwhile."""
        memory.space(self.space).skew += seconds

    def start(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Actor:
        """Do this beside the test."""
        return self.face.start(lambda: work(*args))

    def flag(self) -> Flag:
        """Something to set and to wait for."""
        return self.face.flag()

    def held(self, gate: GatedGuards) -> tuple[Flag, Flag]:
        """The next read has its answer, but its caller doesn't hear it yet: a flag that is set when
        it is so far, and one to set so that it goes on."""
        answered, go = self.flag(), self.flag()

        async def hold() -> None:
            answered.set()
            await go.wait()

        gate.after["read"] = hold
        return answered, go

    async def until(self, true: Callable[[], Any], what: str) -> None:
        """Wait until something is true."""
        for _ in range(3000):
            if true():
                return
            await self.face.sleep(0.005)
        raise AssertionError(f"still not: {what}")

    async def seated(self, guard: Any, many: int, key: str = "") -> None:
        """Wait until so many wait for what another of this process brings."""

        def there() -> bool:
            flight = guard._shared.flights.get(key)
            return flight is not None and len(flight._seats) >= many

        await self.until(there, f"{many} wait")

    async def close(self) -> None:
        """End what was begun."""
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
    """What a guard stands before."""

    def __init__(self) -> None:
        self.version = 0
        self.asked = 0

    async def compute(self) -> int:
        """The version that there is."""
        self.asked += 1
        return self.version
