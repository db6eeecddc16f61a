"""Faults between a client and its store: the requests or replies that a case chooses are lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...errors import StoreUnavailable

#: A number of requests that no case reaches: the fault lasts until the case ends it.
FOREVER = 10**9
#: Verbs that do the work of two other verbs; a fault of either verb makes them fail, too.
PARTS = {"settle_and_take": ("settle", "take")}


class Struck:
    """The verbs of queues or guards, some of whose requests fail.

    Each attribute has a value for each verb. ``lost``: the number of next requests that arrive but
    get no reply. ``down``: the number of next requests that never arrive. ``odd``: the exception
    that each request raises; its class isn't from holdfast. ``calls`` counts the requests.
    """

    def __init__(self, verbs: Any) -> None:
        self.verbs = verbs
        self.calls: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.down: Counter[str] = Counter()
        self.odd: dict[str, Exception] = {}
        #: Called with the names of the verbs when a request has arrived.
        self.arrived: Callable[[Sequence[str]], None] = lambda names: None

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.verbs, name)
        # Only verbs that send a request can fail; the other attributes are passed through.
        awaited = callable(verb) and name not in ("unlisten", "wait", "glance", "forget")
        return partial(self._ask, name, verb) if awaited else verb

    async def _ask(self, name: str, verb: Callable[..., Any], *given: Any, **more: Any) -> Any:
        names = PARTS.get(name, (name,))
        self.calls.update(names)
        for one in names:
            if one in self.odd:
                raise self.odd[one]
        if self._strikes(self.down, names):
            raise StoreUnavailable(f"planted: {name} did not arrive")
        answer = await verb(*given, **more)
        self.arrived(names)
        if self._strikes(self.lost, names):
            raise StoreUnavailable(f"planted: the reply to {name} is lost")
        return answer

    @staticmethod
    def _strikes(planted: Counter[str], names: Sequence[str]) -> bool:
        struck = [name for name in names if planted[name] > 0]
        planted.subtract(struck)
        return bool(struck)


class Overlaid:
    """An object that has the attributes of ``verbs``, some of them replaced."""

    def __init__(self, verbs: Any, **others: Any) -> None:
        self._verbs = verbs
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._verbs, name)


class _Store:
    """A store with faults in some of its verbs."""

    def __init__(self, store: Any, queues: Struck | None, guards: Struck | None) -> None:
        self._store = store
        if queues is not None:
            self.queues = queues
        if guards is not None:
            self.guards = guards

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def queues_of(client: Any) -> Struck:
    """Make the queue requests of this client able to fail after this call."""
    store = client._ctx.store
    struck = Struck(store.queues)
    client._ctx.store = _Store(store, struck, None)
    return struck


def guards_of(client: Any) -> Struck:
    """Make the guard requests of this client able to fail after this call."""
    store = client._ctx.store
    struck = Struck(store.guards)
    client._ctx.store = _Store(store, None, struck)
    return struck
