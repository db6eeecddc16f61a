"""Queues behind planted faults: lost replies, late copies, a pause at every step."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from holdfast import StoreUnavailable
from holdfast.core.queue.ports import Queues

VERBS = ("put", "take", "give_back", "settle", "extend", "survey", "jobs", "revive", "purge")
#: The verb that does the work of two others. A fault that is planted for one of them affects it.
BOTH = "settle_and_take"
PARTS = ("settle", "take")


class FlakyQueues:
    """Passes every verb to the queues of a store, unless a fault is planted for it."""

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        self.limits = queues.limits
        self.calls: Counter[str] = Counter()
        #: By verb: the number of next requests that never arrive.
        self.down: Counter[str] = Counter()
        #: By verb: the number of next requests that arrive but whose replies are lost.
        self.mute: Counter[str] = Counter()
        #: Every request that arrived, so that a late copy of it can be sent.
        self.sent: list[tuple[str, Callable[[], Any]]] = []
        #: Called when a request has arrived, before its reply is returned.
        self.arrived: Callable[[str], None] = lambda verb: None
        #: True if tasks pause before and after each request.
        self.pauses = False

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.queues, name)
        return partial(self._pass, name, verb) if name in (*VERBS, BOTH) else verb

    async def _pass(self, name: str, verb: Callable[..., Any], *args: Any, **more: Any) -> Any:
        names = PARTS if name == BOTH else (name,)
        self.calls.update(names)
        await self._pause()
        if self._strikes(self.down, names):
            raise StoreUnavailable(f"planted: {name} did not arrive")
        self.sent.append((name, partial(verb, *args, **more)))
        answer = await verb(*args, **more)
        for one in names:
            self.arrived(one)
        await self._pause()
        if self._strikes(self.mute, names):
            raise StoreUnavailable(f"planted: the answer to {name} is lost")
        return answer

    def _strikes(self, planted: Counter[str], names: Sequence[str]) -> bool:
        """Return whether a fault is planted for one of these verbs, and use it up."""
        struck = [name for name in names if planted[name] > 0]
        planted.subtract(struck)
        return bool(struck)

    async def _pause(self) -> None:
        if self.pauses:
            await asyncio.sleep(0)

    def copy(self, verb: str, number: int = 0) -> Callable[[], Any]:
        """Return a copy of the first request of a verb, or of a later one."""
        return [one for name, one in self.sent if name == verb][number]


def behind(client: Any) -> FlakyQueues:
    """Put `FlakyQueues` between this client and its queues."""
    store = client._ctx.store
    flaky = store.queues = FlakyQueues(store.queues)
    return flaky
