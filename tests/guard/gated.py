"""Guards behind a wrapper that can hold up, lose or only count requests."""

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
    """Passes every verb to the guards of a store, unless a fault or a hook is set."""

    def __init__(self, guards: Guards) -> None:
        self.guards = guards
        self.limits = guards.limits
        self.calls: Counter[str] = Counter()
        #: By verb: the number of next requests that never arrive.
        self.down: Counter[str] = Counter()
        #: By verb: the number of next requests that arrive but whose replies are lost.
        self.mute: Counter[str] = Counter()
        #: By verb: a hook that is awaited once, before the next request is sent or after its reply.
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
    """Wrap the guards of a client in `GatedGuards`."""
    store = client._ctx.store
    store.guards = GatedGuards(store.guards)
    gated: GatedGuards = store.guards
    return gated
