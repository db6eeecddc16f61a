"""State that all guards of one name share in a client: requests under way, and counts.

A program may make a guard object for each request. All guard objects of one name share this state,
which exists as long as one of these objects. The counts are kept here until a call of a guard
reports them.
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

#: Minimum seconds between two reports of the counts to the store. A close reports the counts, too.
TELL_S = 5.0
#: Maximum number of guards whose counts one caller reports.
TELL_MOST = 10
#: Maximum number of notes about computations of other clients; then all notes are dropped.
BUSY_MAX = 10_000


class Commons:
    """The state that the guards of one name share."""

    def __init__(self, name: str, cache: Any) -> None:
        self.name = name
        #: The external cache of the values, or None. The cache is kept here, so that no other
        #: object gets the `id` of the cache: this `id` is part of the key of this state.
        self.cache = cache
        #: The function that computes the values, if a decorator made the guard.
        self.function: Callable[..., object] | None = None
        self.flights: dict[str, Flight[Value]] = {}
        self.near = Near()
        #: Per key: the time until which the refresh lease of another client isn't requested.
        self.busy: dict[str, float] = {}
        self.counts = dict.fromkeys(GuardCounts._fields, 0)
        #: Number of values computed without the store, while the store was down.
        self.without = 0
        #: Number of computations in the background.
        self.refreshing = 0

    def note_busy(self, key: str, until: float) -> None:
        """Note that another client computes the value: no request for the refresh lease is sent
        before ``until``."""
        if len(self.busy) >= BUSY_MAX:
            self.busy.clear()
        self.busy[key] = until

    def over(self, key: str, flight: Flight[Value], goes_on: bool) -> None:
        """Forget a flight (see ``flight.py``) that its leader left; keep it if another caller leads
        (``goes_on``)."""
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

    The time of the report is noted first. So other callers don't report as well: all waiters for
    one value return at the same time.
    """
    untold, ctx.told = ctx.untold, ctx.now()
    some = list(untold)
    with contextlib.suppress(HoldfastError):
        for shared in some[:most]:
            if untold.pop(shared, False) is None:  # else another thread took it
                await _tell_one(ctx, shared)
        if len(some) > most:
            ctx.told = -math.inf  # so the next caller reports the rest


async def tell_all(ctx: Context) -> None:
    """Report the counts of all guards, because the client is being closed."""
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
