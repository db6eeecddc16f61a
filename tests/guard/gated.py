"""Guards in front of which something stands: a gate, a fault, or only a count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from holdfast import StoreUnavailable
from holdfast.core.guard.ports import Guards

VERBS = ("read", "begin", "finish", "abandon", "prolong", "invalidate", "look", "survey", "tally")
Hook = Callable[[], Awaitable[None]]


class GatedGuards:
    """Passes every verb on to the guards of a store, unless it is told otherwise."""

    def __init__(self, guards: Guards) -> None:
        self.guards = guards
        self.limits = guards.limits
        self.calls: Counter[str] = Counter()
        #: So many requests of a verb never arrive.
        self.down: Counter[str] = Counter()
        #: So many requests of a verb arrive, but their answers are lost.
        self.mute: Counter[str] = Counter()
        #: Awaited once, before the next request of a verb is sent, or when it was answered.
        self.before: dict[str, Hook] = {}
        self.after: dict[str, Hook] = {}

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.guards, name)
        return partial(self._pass, name, verb) if name in VERBS else verb

    async def _pass(self, name: str, verb: Callable[..., Any], *args: Any, **more: Any) -> Any:
        self.calls[name] += 1
        if hook := self.before.pop(name, None):
            await hook()
        if self.down[name]:
            self.down[name] -= 1
            raise StoreUnavailable(f"planted: {name} did not arrive")
        answer = await verb(*args, **more)
        if hook := self.after.pop(name, None):
            await hook()
        if self.mute[name]:
            self.mute[name] -= 1
            raise StoreUnavailable(f"planted: the answer to {name} is lost")
        return answer


def behind(client: Any) -> GatedGuards:
    """Put a gate in front of the guards of a client."""
    store = client._ctx.store
    store.guards = GatedGuards(store.guards)
    gated: GatedGuards = store.guards
    return gated
