"""A client whose requests or replies get lost between it and its store, as a case plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...errors import StoreUnavailable

#: Until the case ends the fault.
FOREVER = 10**9
#: Verbs that do the work of two others, and fail by the faults of either.
PARTS = {"settle_and_take": ("settle", "take")}


class Struck:
    """Verbs of queues or guards; some requests fail.

    ``lost``: for a verb, the number of requests that arrive without a reply; ``down``: the number
    of requests that never arrive; ``odd``: an error of a verb that isn't one of ours. ``calls``
    counts the requests.
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
        # A verb gets the time that it may take; what isn't awaited is passed through.
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
    """Verbs, some of them replaced by others."""

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
