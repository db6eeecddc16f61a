"""State that all guards of one name share in a client: requests under way, and counts.

A guard may be made again for each request: while any guard of its name exists, all share this
state. The counts are kept here until a call of a guard reports them to the store.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import HoldfastError
from ..policy import REQUEST_S
from .flight import Flight
from .model import GuardCounts, Value
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
    """The state that the guards of one name share."""

    def __init__(self, name: str, cache: Any) -> None:
        self.name = name
        #: The external cache of the values, or None; kept, so that its `id` isn't used again.
        self.cache = cache
        #: The function that computes the values, if a decorator made the guard.
        self.function: Callable[..., object] | None = None
        self.flights: dict[str, Flight[Value]] = {}
        self.near = Near()
        #: The time until which the refresh lease of a key, held by another, isn't asked for.
        self.busy: dict[str, float] = {}
        self.counts = dict.fromkeys(GuardCounts._fields, 0)
        #: Number of values computed without the store, while it was down.
        self.without = 0
        #: Number of computations in the background.
        self.refreshing = 0

    def note_busy(self, key: str, until: float) -> None:
        """Another client computes it: don't ask for the refresh lease before ``until``."""
        if len(self.busy) >= BUSY_MAX:
            self.busy.clear()
        self.busy[key] = until

    def over(self, key: str, flight: Flight[Value], goes_on: bool) -> None:
        """Forget a flight that the leader has left, unless another caller leads it."""
        if not goes_on:
            self.drop(key, flight)

    def drop(self, key: str, flight: Flight[Value]) -> None:
        """Forget this flight: the next caller starts a new one."""
        if self.flights.get(key) is flight:
            self.flights.pop(key, None)


def commons(ctx: Context, name: str, cache: Any) -> Commons:
    """Return the state that this client's guards of this name and external cache share."""
    key = (name, id(cache) if cache is None else id(cache.given))
    found: Commons | None = ctx.commons.get(key)
    return found if found is not None else ctx.commons.setdefault(key, Commons(name, cache))


async def tell(ctx: Context, most: int = TELL_MOST) -> None:
    """Add the counts to the numbers in the store; counts that can't be sent are kept.

    A caller that comes during this (all waiters for one value come at the same time) sees the time
    already noted, and continues.
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
    """Report the counts of all guards, as the client is being closed."""
    ctx.untold.update(dict.fromkeys(ctx.commons.values()))
    await tell(ctx, len(ctx.untold))


async def _tell_one(ctx: Context, shared: Commons) -> None:
    counts = dict(shared.counts)
    if not any(counts.values()):
        return
    for what, times in counts.items():
        shared.counts[what] -= times
    try:
        await guards_of(ctx.store).tally(shared.name, GuardCounts(**counts), REQUEST_S)
    except BaseException:
        for what, times in counts.items():
            shared.counts[what] += times
        ctx.untold[shared] = None
        raise
