"""Late replies cost no more than the grace after the time-out, in simulated time."""

from __future__ import annotations

from typing import Any

from holdfast import StoreUnavailable
from holdfast.core.model import Claim, Joined, Kind, Leave, Mismatch
from holdfast.core.semaphore import SemaphoreBase
from holdfast.testing.simulator.server import Server
from holdfast.testing.simulator.store import SimStore
from holdfast.testing.simulator.workload import client
from holdfast.testing.simulator.world import Fut, World

TIMEOUT_S, GRACE_S = 1.0, 0.25


class Late(SimStore):
    """A store whose first reply to a join comes at the last moment and reports other permits.

    After that it replies only to requests that change the permits.
    """

    joins = 0

    async def _pass(self, seconds: float) -> None:
        over: Fut[None] = Fut(self.world)
        self.world.after(seconds, lambda: over.set(None))
        await over

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        self.joins += 1
        await self._pass(within)
        if self.joins == 1:
            return Mismatch(Kind.SEMAPHORE, 3)
        raise StoreUnavailable("planted: no answer to join")

    async def leave(self, leave: Leave, within: float) -> bool:
        await self._pass(within)
        raise StoreUnavailable("planted: no answer to leave")

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        return 3


def test_a_semaphore_that_would_be_resized_too_late_is_back_in_time() -> None:
    # Given
    world = World(1)
    process = world.process(threads=False, rate=1.0)
    store = Late(Server(world, 10.0), process)
    wish: Any = client(process, store)._wish(Kind.SEMAPHORE, "gpu", capacity=4, ttl=2.0)
    semaphore = SemaphoreBase(*wish, on_conflict="resize")
    ended: list[object] = []

    async def acquire() -> None:
        try:
            ended.append(await semaphore._acquire(timeout=TIMEOUT_S))
        except StoreUnavailable as failure:
            ended.append(failure)

    # When
    world.spawn(process, acquire(), "acquire")
    while not ended:
        assert world.step()
    # Then
    assert isinstance(ended[0], StoreUnavailable)
    assert world.time <= TIMEOUT_S + GRACE_S
