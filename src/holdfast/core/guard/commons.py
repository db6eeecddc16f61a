"""State that all guards of one name share in a client: requests under way, and counts.

A guard may be made again for each request: as long as any of its name is in use, they go together.
The numbers wait here until somebody who comes by tells them to the store.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import HoldfastError
from ..policy import REQUEST_S
from .flight import Flight
from .model import Tally, Value
from .near import Near
from .ports import guards_of

if TYPE_CHECKING:
    from ..context import Context

#: Least seconds between two reports of the counts to the store; closing the client reports, too.
TELL_S = 5.0
#: Maximum number of guards whose counts one caller reports.
TELL_MOST = 10
#: Maximum number of notes about computations of others; the oldest are dropped first.
BUSY_MAX = 10_000


class Commons:
    """What the guards of one name share."""

    def __init__(self, name: str, cache: Any) -> None:
        self.name = name
        #: Where their values are, if not in the store; kept, so that nothing else is taken for it.
        self.cache = cache
        #: The function whose values they are, of a guard that was made by a decorator.
        self.function: Callable[..., object] | None = None
        self.flights: dict[str, Flight[Value]] = {}
        self.near = Near()
        #: Until when what others compute isn't asked for again.
        self.busy: dict[str, float] = {}
        self.counts = dict.fromkeys(Tally._fields, 0)
        #: Number of values computed without the store, as that was down.
        self.without = 0
        #: Computations in the background.
        self.refreshing = 0

    def note_busy(self, key: str, until: float) -> None:
        """Somebody computes it: until then nobody here asks for the refresh lease."""
        if len(self.busy) >= BUSY_MAX:
            self.busy.clear()
        self.busy[key] = until

    def over(self, key: str, flight: Flight[Value], goes_on: bool) -> None:
        """The leader has landed, or left: is anybody still on this flight?"""
        if not goes_on:
            self.drop(key, flight)

    def drop(self, key: str, flight: Flight[Value]) -> None:
        """Whoever comes now makes another."""
        if self.flights.get(key) is flight:
            self.flights.pop(key, None)


def commons(ctx: Context, name: str, cache: Any) -> Commons:
    """What the guards of this name, with this cache of the user's, share in this client."""
    key = (name, id(cache) if cache is None else id(cache.given))
    found: Commons | None = ctx.commons.get(key)
    return found if found is not None else ctx.commons.setdefault(key, Commons(name, cache))


async def tell(ctx: Context, most: int = TELL_MOST) -> None:
    """Add what was counted to the numbers in the store; what can't be told waits.

    Whoever comes by meanwhile, as all do who waited for one value, finds it done and continues.
    """
    untold, ctx.told = ctx.untold, ctx.now()
    some = list(untold)
    with contextlib.suppress(HoldfastError):
        for shared in some[:most]:
            if untold.pop(shared, False) is None:  # else another thread took it
                await _tell_one(ctx, shared)
        if len(some) > most:
            ctx.told = -math.inf  # the next one continues


async def tell_all(ctx: Context) -> None:
    """The same of everything, as the client is being closed."""
    ctx.untold.update(dict.fromkeys(ctx.commons.values()))
    await tell(ctx, len(ctx.untold))


async def _tell_one(ctx: Context, shared: Commons) -> None:
    counts = dict(shared.counts)
    if not any(counts.values()):
        return
    for what, times in counts.items():
        shared.counts[what] -= times
    try:
        await guards_of(ctx.store).tally(shared.name, Tally(**counts), REQUEST_S)
    except BaseException:
        for what, times in counts.items():
            shared.counts[what] += times
        ctx.untold[shared] = None
        raise
