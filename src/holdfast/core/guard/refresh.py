"""One leading caller: read, acquire the refresh lease or wait for its holder, compute, store.

Requests to the store: a fresh value costs one read. A stale value costs one read, too, if this
client noted a moment ago that another caller computes the next value. A computation costs a read, a
``begin`` and a ``finish``. A waiter sends one more ``begin`` when it is woken.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import ComputeFailed, ConfigError, RefreshTimeout, StoreUnavailable
from .. import itself
from ..asking import Asking
from ..policy import REQUEST_S, REQUEST_S_MIN, SILENCE_S, deadline, nap
from . import codec
from .computing import Computation, give_up
from .flight import Failure, Flight
from .lease import DutyLease
from .model import Abandon, Begun, Busy, Duty, Entry, Failing, Value, Wish
from .ports import guards_of

if TYPE_CHECKING:
    from .guard import GuardBase

log = logging.getLogger("holdfast")

#: Seconds after a reply `Busy` in which callers get the old value without another ``begin``.
BUSY_S = 0.1
#: Seconds to wait for a store that doesn't answer, if a caller may compute without the store.
DOWN_S = 1.0

Compute = Callable[[], Awaitable[Any]]


async def lead(
    guard: GuardBase, key: str, flight: Flight[Value], compute: Compute, end: float
) -> Value:
    """Return the value for all callers of this flight, as their leader.

    Only a value that isn't fresh needs a `Refresh`.
    """
    ctx, near, options = guard._ctx, guard._near, guard._options
    sent, era = ctx.now(), near.era
    flight.mark()
    flight.reads = True
    found: tuple[Value | None] | None = None
    leads = True
    try:
        within = DOWN_S if options.on_store_error == "compute" else REQUEST_S
        try:
            ctx.require_open()  # the client may have been closed while this caller waited
            guards = guards_of(ctx.store) if guard._elsewhere is None else guard._elsewhere
            (value,) = await guards.read((Entry(guard._name, key),), within)
        except StoreUnavailable:
            pass  # `Refresh` asks again
        else:
            if value is not None and value.fresh_in > 0 and not options.early:
                guard._counts["hits"] += 1
                if options.local_ttl:
                    near.put(key, value, sent, era, options.local_entries_max)
                leads = False
                guard._shared.over(key, flight, flight.land(value))
                return value
            found = (value,)
        flight.reads = False
        refresh = Refresh(guard, key, flight, compute, end)
        refresh._sent, refresh._era = sent, era
        try:
            leads = False
            return await refresh.run(found)
        finally:
            refresh.leave()
    finally:
        if leads:
            guard._shared.over(key, flight, flight.hand_over())


async def beside(guard: GuardBase, key: str, flight: Flight[Value], end: float) -> Value | None:
    """Read a fresh value for a caller that came after the leader sent its read.

    Return None if there is no fresh value, or no answer; the caller then waits for the leader. The
    caller has lost no time, because it would have waited for the leader's read as well.
    """
    ctx, near = guard._ctx, guard._near
    sent, era = ctx.now(), near.era
    flight.beside += 1
    try:
        within = min(DOWN_S, max(end - sent, REQUEST_S_MIN))
        (value,) = await guard._guards().read((Entry(guard._name, key),), within)
    except StoreUnavailable:
        ctx.require_open()
        return None
    finally:
        flight.beside -= 1
    if value is None or value.fresh_in <= 0:
        return None
    guard._counts["hits"] += 1
    guard._keep_near(key, value, sent, era)
    return value


class Refresh:
    """The steps by which one caller gets the value of one entry, until ``end``."""

    def __init__(
        self, guard: GuardBase, key: str, flight: Flight[Value], compute: Compute, end: float
    ) -> None:
        self._guard = guard
        self._ctx = guard._ctx
        self._options = guard._options
        self._key = key
        self._entry = Entry(guard.name, key)
        self._flight: Flight[Value] | None = flight
        self._compute = compute
        self._end = end
        #: The last value that was read, whatever its age.
        self._old: Value | None = None
        self._sends()

    # -- the waiters with us --------------------------------------------------------------

    def _sends(self) -> None:
        """Note the time of a request that is being sent; the age of its answer counts from that
        time."""
        self._sent = self._ctx.now()
        self._era = self._guard._near.era

    def _asked(self) -> None:
        """Note the time of a request whose answer is for all callers that are in the flight now."""
        self._sends()
        if self._flight is not None:
            self._flight.mark()

    def _land(self, value: Value | Failure) -> None:
        """Give the outcome to all callers that were in the flight when the request was sent. One of
        the later callers then leads the rest."""
        flight, self._flight = self._flight, None
        if flight is not None:
            self._guard._shared.over(self._key, flight, flight.land(value))

    def leave(self) -> None:
        """Leave the flight without a value for the other callers; one of them then leads."""
        flight, self._flight = self._flight, None
        if flight is not None:
            self._guard._shared.over(self._key, flight, flight.hand_over())

    def _note_busy(self, seconds: float) -> None:
        self._guard._shared.note_busy(self._key, self._ctx.now() + seconds)

    # -- the steps ---------------------------------------------------------------------------

    async def run(self, found: tuple[Value | None] | None) -> Value:
        """Return the value, fresh or old; the guard's options define the other outcomes.

        ``found``: the result of the read that was made just now, unless that read failed.
        """
        try:
            (value,) = found or (await self._read(),)
            self._old = value
            usable = value if value is not None and value.stale_in > 0 else None
            if usable is not None:
                if not self._due(usable):
                    return self._fresh(usable)
                if self._ctx.now() < self._guard._shared.busy.get(self._key, -math.inf):
                    return self._serve(usable)
            wish = self._wish(usable is None)
            begun, again = await self._ask(wish)
        except StoreUnavailable as failure:
            self._ctx.require_open()
            if self._options.on_store_error != "compute":
                text = str(failure)
                self._land(Failure(lambda: StoreUnavailable(text)))
                raise
            log.warning("%s; %s is computed without it", failure, self._entry)
            self._guard._shared.without += 1
            return await self._alone()
        if isinstance(begun, Value):
            return self._fresh(begun)
        if isinstance(begun, Duty):
            return await self._compute_as(wish, begun, again, usable)
        if usable is not None:
            self._note_busy(min(begun.retry_in, BUSY_S))
            return self._serve(usable)
        return await self._without(begun)

    async def _read(self) -> Value | None:
        ctx, guards = self._ctx, self._guard._guards()
        self._asked()
        (value,) = await Asking(ctx).insist(
            lambda within: guards.read((self._entry,), within), self._patience()
        )
        return value

    def _patience(self) -> float:
        """Return the time until which a store that doesn't answer is asked again."""
        longest = DOWN_S if self._options.on_store_error == "compute" else SILENCE_S
        return self._ctx.now() + longest

    def _due(self, value: Value) -> bool:
        """Return True if the value must be computed again.

        A stale value always must be. A fresh value must be, with a probability that grows towards
        the end of its ttl, and that is higher if the computation takes long. See Vattani,
        Chierichetti, Lowenstein 2015, "Optimal Probabilistic Cache Stampede Prevention"; ``early``
        is their beta.
        """
        left = value.fresh_in
        if left <= 0:
            return True
        early = self._options.early
        if not early:
            return False
        return left <= -value.cost * early * math.log(1.0 - self._ctx.runtime.jitter())

    def _wish(self, wait: bool) -> Wish:
        ctx, known = self._ctx, 0 if self._old is None else self._old.version
        return Wish(self._entry, ctx.runtime.new_id(), ctx.owner, self._options.lease, known, wait)

    async def _ask(self, wish: Wish) -> tuple[Begun, bool]:
        """Request the refresh lease; if there is no value to serve, wait until no other caller has
        the lease.

        Return the answer, and True if a copy of the request can be under way.
        """
        ctx, guards = self._ctx, self._guard._guards()
        waited, asking = False, Asking(ctx)
        abandon = Abandon(wish.entry, wish.id, wish.lease, suspect=True)
        ctx.under_way[self] = lambda: (abandon,)
        try:
            ctx.require_open()
            while True:
                # Without `wait`, an old value can be served. That value was read for the callers
                # that were in the flight then, so no more callers are marked here.
                (self._asked if wish.wait else self._sends)()
                begun = await asking.insist(
                    lambda within: guards.begin(wish, within), self._patience()
                )
                left = self._end - ctx.now()
                if not wish.wait or not isinstance(begun, Busy) or left <= 0:
                    self._guard._count("waits", int(waited))
                    guards.unlisten(wish)  # inside the `try`: an interrupt here ends the lease
                    return begun, asking.suspect
                if not waited and self._is_own():
                    raise asks_itself(self._entry)
                waited = True
                await guards.wait(wish, nap(begun.retry_in, left))
                ctx.require_open()
        except BaseException as stop:
            guards.unlisten(wish)
            await give_up(ctx, abandon, stop)
            raise
        finally:
            ctx.under_way.pop(self, None)

    def _is_own(self) -> bool:
        """Return True if this thread or task already computes the value, through another client."""
        flow = self._ctx.runtime.flow()
        duties: list[Any] = itself.leases(self._ctx, "duty")
        return any(one.flow == flow and one.entry == self._entry for one in duties)

    # -- the outcomes ------------------------------------------------------------------------

    def _fresh(self, value: Value) -> Value:
        guard = self._guard
        guard._count("hits")
        guard._keep_near(self._key, value, self._sent, self._era)
        self._land(value)
        return value

    def _serve(self, value: Value) -> Value:
        """Serve an old value, because another caller computes the next."""
        self._guard._count("stale")
        self._land(value)
        return value

    async def _without(self, begun: Busy | Failing) -> Value:
        """Handle the case that there is no value to serve, and no value was computed in time."""
        how, old = self._options.on_timeout, self._old
        if how == "stale" and old is not None:
            return self._serve(old)
        self._guard._count("misses")
        if isinstance(begun, Failing):
            failure = Failure(partial(_failed, self._entry, begun))
            self._land(failure)
            raise failure.error()
        if how == "compute":
            self.leave()
            return await self._alone()
        raise RefreshTimeout(
            f"{self._entry} is being computed by another client, and was not there in time; its "
            f"lease ends in {begun.retry_in:.3g} s. Wait longer (timeout=), or choose the outcome "
            '(on_timeout="stale" or "compute")'
        )

    async def _alone(self) -> Value:
        """Compute the value without the refresh lease, so the value isn't stored."""
        self._asked()
        begun = self._ctx.now()
        self._guard._count("computes")
        data = await self._made()
        value = Value(data, 0.0, 0.0, self._ctx.now() - begun, 0)
        self._land(value)
        return value

    async def _made(self) -> bytes:
        return codec.pack(await self._compute(), self._options.codec, self._options.max_bytes)

    async def _compute_as(self, wish: Wish, duty: Duty, suspect: bool, old: Value | None) -> Value:
        """Compute under the refresh lease, now or in the background; other callers get the old
        value."""
        ctx = self._ctx
        self._guard._count("misses" if old is None else "stale")
        # The answer to a repeated request gives the rest of the first lease: see `Attempt.grant`.
        until = deadline(self._sent, min(duty.expires_in, wish.lease))
        lease = DutyLease(wish, duty.fence, until, suspect)
        ctx.keeper.add(lease, self._sent + lease.every)
        work = Computation(self._guard, lease, duty.failures, self._made)
        if old is None:
            if self._flight is not None:
                self._flight.computing = ctx.runtime.flow()
            return await self._awaited(work)
        self._note_busy(BUSY_S)
        self._land(old)
        if self._options.background:
            work.start()
            return old
        return (await work.run())[0]

    async def _awaited(self, work: Computation) -> Value:
        """Compute the value while others wait for it.

        A value that was not stored can be older than an invalidation that the others know of. So
        the others don't get this value: one of them leads instead.
        """
        work.before_store = self._asked
        value, stored = await work.run()
        if stored:
            self._guard._keep_near(self._key, value, self._sent, self._era)
            self._land(value)
        else:
            self.leave()
        return value


def asks_itself(entry: Entry) -> ConfigError:
    """Return the error for a computation that asks for its own value."""
    return ConfigError(
        f"the computation of {entry} asks for the same value, and would wait for its own end; give "
        "the inner value another key or guard"
    )


def _failed(entry: Entry, failing: Failing) -> ComputeFailed:
    return ComputeFailed(
        f"{entry} could not be computed: {failing.reason}; it is tried again in "
        f"{failing.retry_in:.3g} s (failure_ttl)",
        failing.retry_in,
    )
