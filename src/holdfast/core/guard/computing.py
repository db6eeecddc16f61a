"""Compute under a refresh lease: store the value, or report the failure.

The renewer renews the refresh lease during the computation. The store accepts the value only while
the refresh lease is held. So a computation overwrites no value after its lease has expired or after
an invalidation of the entry.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ...errors import StoreUnavailable
from ..asking import Asking
from ..model import State
from ..policy import UNDO_S
from ..queue.payload import text_of
from .lease import DutyLease
from .model import REASON_BYTES_MAX, Abandon, Finish, Value

if TYPE_CHECKING:
    from ..context import Context
    from .guard import GuardBase

log = logging.getLogger("holdfast")

#: After its pause, a failure still counts for this multiple of the pause: a failure in that time is
#: the next one in a row.
ROW = 4.0


def _nothing() -> None:
    """Do nothing."""


async def give_up(ctx: Context, abandon: Abandon, stop: BaseException) -> None:
    """Release a refresh lease while this exception is on its way."""
    if isinstance(stop, GeneratorExit):  # the coroutine is being closed: nothing may be awaited
        ctx.keeper.later(abandon, ctx.now() + abandon.lease)
    else:
        await ctx.undo(abandon)


class Computation:
    """One computation under a refresh lease.

    ``failures``: the number of failures in a row before it.
    """

    def __init__(
        self,
        guard: GuardBase,
        lease: DutyLease,
        failures: int,
        make: Callable[[], Awaitable[bytes]],
    ) -> None:
        self._guard = guard
        self._ctx = guard._ctx
        self._lease = lease
        self._epoch = self._ctx.epoch
        self._failures = failures
        self._make = make
        #: Called just before the request to store the value is sent.
        self.before_store: Callable[[], None] = _nothing

    def start(self) -> None:
        """Compute in the background; log a failure."""
        name = f"holdfast-refresh-{self._lease.name}"
        self._guard._shared.refreshing += 1
        self._ctx.runtime.background(self._behind, self._over, name)

    def _over(self) -> None:
        self._guard._shared.refreshing -= 1
        if self._lease.end is None and not self._lease.closing:  # cancelled before it began
            self._end()
            self._ctx.keeper.later(self._lease.abandon(), self._ctx.now() + self._lease.ttl)

    async def _behind(self) -> None:
        try:
            await self.run()
        except BaseException as stop:
            if isinstance(stop, GeneratorExit) or self._ctx.runtime.interrupts(stop):
                raise
            log.exception("refreshing %s in the background failed", self._lease.name)

    async def run(self) -> tuple[Value, bool]:
        """Compute and store the value; return it, and True if it was stored."""
        ctx, lease = self._ctx, self._lease
        begun = ctx.now()
        lease.flow = ctx.runtime.flow()
        self._guard._count("computes")
        try:
            data = await self._make()
        except BaseException as stop:
            # A SystemExit is a failure like any other. So is the cancellation of a task or future
            # that the function awaits.
            if not (isinstance(stop, GeneratorExit) or ctx.runtime.interrupts(stop)):
                self._guard._count("failures")
                await self._failed(stop)
                raise
            self._end()
            await give_up(ctx, lease.abandon(), stop)
            raise
        return await self._store(data, ctx.now() - begun)

    def _end(self) -> None:
        """End the renewal of the refresh lease."""
        self._lease.closing, self._lease.flow = True, None
        self._ctx.keeper.drop(self._lease)
        self._lease.end = self._lease.end or State.RELEASED

    async def _failed(self, failure: BaseException) -> None:
        """Report the failure; others can try again immediately, or after a pause."""
        first, longest = self._guard._options.failures
        pause = min(longest, first * 2.0 ** min(self._failures, 60)) if first else 0.0
        short = text_of(failure).encode(errors="replace")[:REASON_BYTES_MAX].decode(errors="ignore")
        abandon = self._lease.abandon(pause, pause * (1 + ROW), short)
        self._ctx.under_way[self] = lambda: (abandon,)
        self._end()
        try:
            await self._guard._guards().abandon(abandon, UNDO_S * 10)
        except StoreUnavailable:
            self._ctx.keeper.later(abandon, self._ctx.now() + self._lease.ttl)
        except BaseException as stop:
            await give_up(self._ctx, abandon, stop)
            raise
        finally:
            self._ctx.under_way.pop(self, None)

    async def _store(self, data: bytes, cost: float) -> tuple[Value, bool]:
        ctx, lease, options = self._ctx, self._lease, self._guard._options
        ttl = options.ttl * (1.0 - options.jitter * ctx.runtime.jitter())
        what = (data, ttl, options.stale, options.keep, cost)
        finish = Finish(lease.entry, lease.wish.id, lease.fence, *what)
        value = Value(data, ttl, ttl + options.stale, cost, lease.fence)
        if self._epoch != ctx.epoch:  # in the child of a fork: the refresh lease is the parent's
            self._guard._count("refused")
            return value, False
        self.before_store()
        ctx.under_way[self] = lambda: (lease.abandon(),)
        lease.closing = True
        stored = False
        try:
            guards = self._guard._guards()
            asking = Asking(ctx)
            stored = await asking.insist(lambda w: guards.finish(finish, w), lease.deadline)
        except StoreUnavailable as failure:
            log.warning("%s: the value was computed, but not stored: %s", lease.name, failure)
            ctx.keeper.later(lease.abandon(), lease.deadline)
        except BaseException as stop:
            await give_up(ctx, lease.abandon(), stop)
            raise
        finally:
            ctx.under_way.pop(self, None)
            self._end()
        if not stored:
            self._guard._count("refused")
        return value, stored
