"""Acquire a hold: the loop that waits for it, and the withdrawal of the claim if that fails.

    join --Held--> deadline not past? --> lease
      | Waiting          ^   | past: leave, join again with a new id
      v                  |   v
    wait (woken, or retry_in) --> keep --Gone--> join again, at the end of the line

If anything goes wrong before the hold is returned (an exception, a cancellation, Ctrl-C), the claim
is withdrawn before the exception continues (`undo`). The store then refuses a late copy of the
join. Every wait is bounded. The store decides which claim is next; wake-ups only save time.

A deadline counts from the sending of a request that was *answered*. A push is a wake-up with a
grant. It moves no deadline: if not renewed, the hold ends when the waiting claim would have ended.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ..errors import CapacityMismatch, ConfigError, StoreUnavailable
from . import checks, waits
from .asking import Asking
from .hold import HoldBase
from .lease import Lease, Terms
from .model import Claim, Full, Gone, Held, Joined, Leave, Mismatch, Refused, Spec, Waiting
from .policy import (
    ASK_AGAIN_S_MIN,
    GRACE_S,
    REQUEST_S,
    REQUEST_S_MIN,
    SILENCE_S,
    deadline,
    nap,
)
from .ports import DiskFailed, NotYet

if TYPE_CHECKING:
    from .context import Context
    from .lock import LockBase

log = logging.getLogger("holdfast")

#: Seconds that a try (``blocking=False``) waits for an answer, including the time to connect.
TRY_S = 1.0
#: Seconds that a try with ``timeout=0`` waits for an answer: its caller has no time to wait.
TRY_NOW_S = 0.12
#: Late grants in one acquire, after which the store is reported as too slow.
LATE_MAX = 5
#: The lease of a pushed grant is the rest of the waiter TTL. It is first renewed after this part of
#: the waiter TTL. A push that comes later is not used: the renewer might not renew it in time.
PUSHED_RENEW_PART = 0.5
#: Longest pause in seconds between two requests to a store that grants nothing for a while.
BARRED_S = 0.5
#: A lease of at least this part of the ttl is renewed at the usual time; a shorter one, earlier.
WHOLE_PART = 0.9


def mismatch(spec: Spec, other: Mismatch) -> CapacityMismatch:
    """Return the error for a claim whose name is in use as another kind or capacity."""
    mine, theirs = _what(spec.kind, spec.capacity), _what(other.kind, other.capacity)
    text = f"{spec.name!r} is in use as {theirs}; this asks for {mine}"
    if spec.kind == other.kind and spec.weight > other.capacity:
        text += f" and a weight of {spec.weight}"
    if spec.kind == other.kind:
        text += ". Use the same number everywhere, or change it with resize()"
    else:
        text += ". Use another name"
    return CapacityMismatch(text, name=spec.name, kind=other.kind, capacity=other.capacity)


def _what(kind: str, capacity: int) -> str:
    if kind == "semaphore":
        return f"a semaphore of {capacity} permits"
    return "an election" if kind == "election" else f"a {kind}"


def times(timeout: float | None, begun: float) -> tuple[float, float]:
    """Return the end of the waiting, and the time by which the last request must be answered."""
    if timeout is None:
        return math.inf, math.inf
    if timeout > 0:
        return begun + timeout, begun + timeout + GRACE_S
    return begun, begun + (TRY_S if timeout == checks.TRY else TRY_NOW_S)


class Attempt(Asking):
    """One acquire in progress. It may use several claims, one after the other. The request whose
    copies are noted is the join."""

    ticket, wait = 0, True
    end = limit = math.inf  # see `times`
    listening = pushed = withdrawn = False
    late = 0
    holder = ""
    #: When the next log line about this wait is due.
    tell_at = -1.0

    def __init__(
        self, ctx: Context, spec: Spec, terms: Terms, timeout: float | None, begun: float
    ) -> None:
        self.ctx = ctx
        self.spec = spec
        self.terms = terms
        self.claim = Claim(ctx.runtime.new_id(), spec)
        self.asked = self.heard = self.begun = begun
        if timeout is not None:
            self.wait = timeout > 0
            self.end, self.limit = times(timeout, begun)

    def ask(self) -> Awaitable[Joined]:
        """Send the join. A repeated join has the same id, so the claim enters the line once."""
        self.listening = self.wait
        self.ctx.under_way[self] = self.undos
        if self.ctx.closed:  # a join sent after the close would not be undone
            self.ctx.require_open()
        # `sends`, inline, without `first`: the answer to a repeated join contains the rest of the
        # lease.
        self.asked = now = self.ctx.now()
        left = self.limit - now
        within = REQUEST_S if left > REQUEST_S else max(left, REQUEST_S_MIN)
        return self.ctx.store.join(self.claim, self.wait, within)

    def learn(self, answer: Joined) -> Joined:
        """Note the answer to the last request; return it."""
        self.heard, self.failures = self.asked, 0  # `answered`, inline
        if answer.__class__ is not Held and isinstance(answer, Waiting):
            self.ticket = answer.ticket
        return answer

    def grant(self, standing: Joined) -> tuple[int, float] | None:
        """Return fence and deadline if the claim is held and its deadline has not passed.

        The lease counts as no longer than the ttl. If the store's clock was set back, the answer to
        a repeated join can contain a longer time than the ttl.
        """
        if isinstance(standing, Held):
            until = deadline(self.heard, min(standing.expires_in, self.spec.ttl))
            if self.ctx.now() < until:
                return standing.fence, until
        return None

    async def run(self, standing: Joined | None) -> tuple[int, float] | None:
        """Return fence and deadline once the claim is held, None when the time has expired."""
        while standing is not None:
            if isinstance(standing, Held):
                grant = self.grant(standing)
                if grant is not None:
                    return grant
                standing = await self.anew()
            elif isinstance(standing, Waiting):
                standing = await self._stand(standing)
            elif isinstance(standing, Gone):
                self._renew_claim()
                standing = await self.join()
            elif isinstance(standing, Refused):
                self.holder = standing.holder
                return None
            elif isinstance(standing, Mismatch):
                self.withdrawn = not self.suspect  # it was not accepted: there is nothing to undo
                raise mismatch(self.spec, standing)
            elif isinstance(standing, Full):
                self.withdrawn = not self.suspect
                raise ConfigError(
                    f"{standing.waiters} claims wait for {self.spec.name!r} already: no more are "
                    "accepted. Find out why its holder doesn't finish (holdfast show)"
                )
        return None

    async def anew(self) -> Joined | None:
        """Withdraw a grant that came after its deadline, and join again with a new id."""
        await self.too_late()
        if self.wait and self.ctx.now() >= self.end:
            return None
        return await self.join()

    async def too_late(self) -> None:
        """Withdraw a grant that came after its deadline, and prepare another try."""
        await self._withdraw()
        self._renew_claim()
        self.late += 1
        if self.late >= LATE_MAX:
            raise StoreUnavailable(
                f"{self.ctx.store.label} answered {self.late} times only after the lease of "
                f"{self.spec.ttl:g} s on {self.spec.name!r} had ended; use a longer ttl"
            )

    def settle(self) -> None:
        """Note that the waiting has ended, with a hold or without."""
        self.ctx.under_way.pop(self, None)
        if self.listening:
            self.ctx.store.unlisten(self.claim)
            self.listening = False

    def leave(self, suspect: bool) -> Leave:
        """Return the request that withdraws the present claim."""
        spec = self.spec
        return Leave(spec.name, self.claim.id, self.ticket, 0.0, suspect, spec.ttl)

    def undos(self) -> tuple[Leave]:
        """Return the request that withdraws the claim, for a close of the client."""
        return (self.leave(suspect=True),)

    def _renew_claim(self) -> None:
        self.settle()
        self.claim = Claim(self.ctx.runtime.new_id(), self.spec)
        self.forget()
        self.ticket = 0
        self.pushed = self.withdrawn = False

    async def join(self, failure: StoreUnavailable | None = None) -> Joined:
        """Send the join until it is answered; ``failure``: the failure of the last attempt."""
        while True:
            if isinstance(failure, NotYet):
                await self._barred(failure)
            elif failure is not None:
                self.unanswered(failure)
                await self._silence(failure)
            try:
                return self.learn(await self.ask())
            except StoreUnavailable as unanswered:
                failure = unanswered

    async def _stand(self, waiting: Waiting) -> Joined | None:
        """Sleep until woken or due, then ask for the standing. None: the time has expired."""
        ctx = self.ctx
        self.ticket = waiting.ticket
        if ctx.now() >= self.end:
            await self._withdraw()
            return None
        if self.tell_at < 0.0:
            self.tell_at = waits.begin(self, waiting)
        elif self.asked >= self.tell_at:
            self.tell_at = await waits.tell(self, waiting)
        trusted = self._trusts()  # before the wait: each step after a wake-up delays the caller
        left = self.end - ctx.now()  # computed after the log line, which takes time
        push = await ctx.store.wait(self.claim, waiting, nap(waiting.retry_in, left))
        if ctx.closed:
            ctx.require_open()
        # The ticket must match, too. If the reply to a join is lost and the claim expires, a
        # repeated join enters it again with the same id. A wake-up for its first entry can then
        # still be under way.
        if push is not None and push.fence == waiting.ticket and trusted:
            if ctx.now() < self.heard + ctx.store.patience * PUSHED_RENEW_PART:
                self.pushed = True
                return tuple.__new__(Held, (push.fence, ctx.store.patience))
        elif self.end - ctx.now() <= 0:
            await self._withdraw()
            return None
        return await self._turn(waiting)

    def _trusts(self) -> bool:
        """Return True if a grant by push may be used: if the renewer will extend its lease."""
        store = self.ctx.store
        return (
            self.terms.auto_renew
            and self.spec.ttl >= store.patience
            and store.capabilities.wakeup_grants
        )

    async def _turn(self, waiting: Waiting) -> Joined:
        ctx = self.ctx
        self.asked = now = ctx.now()
        within = min(REQUEST_S, ctx.store.patience / 2, max(self.limit - now, REQUEST_S_MIN))
        try:
            return self.learn(await ctx.store.turn(self.claim, waiting.ticket, within))
        except StoreUnavailable as failure:
            await self._silence(failure)
            return waiting._replace(retry_in=ASK_AGAIN_S_MIN)

    async def _barred(self, failure: NotYet) -> None:
        """Pause because the store grants nothing yet; raise if there is no time left."""
        ctx = self.ctx
        self.heard = ctx.now()
        pause = min(failure.retry_in, BARRED_S) * (1 - ctx.runtime.jitter() / 2) + ASK_AGAIN_S_MIN
        if self.heard + pause >= self.end:  # also if this is one try
            raise StoreUnavailable(f"{self.spec.name!r} can't be acquired now: {failure}")
        await ctx.runtime.sleep(pause)

    async def _silence(self, failure: StoreUnavailable) -> None:
        """Pause after a request that got no answer.

        Raise if the client was closed during the wait, if the store's disk failed, or if there is
        no time left. After that it is unknown whether the name is busy.
        """
        ctx = self.ctx
        ctx.require_open()
        if isinstance(failure, DiskFailed):
            raise DiskFailed(f"{self.spec.name!r} can't be acquired now: {failure}") from failure
        until = self.end if self.wait else self.limit
        pause = self.pause(failure, min(until, self.heard + SILENCE_S))
        if pause is None:
            raise StoreUnavailable(
                f"{ctx.store.label} did not answer for {ctx.now() - self.heard:.1f} s while "
                f"acquiring {self.spec.name!r}; it is unknown whether the name is free. "
                f"Check the store with `holdfast doctor`. The last failure was: {failure}"
            ) from failure
        await ctx.runtime.sleep(pause)

    async def _withdraw(self) -> None:
        """Leave the line. After this no grant exists, so the result "busy" is true."""
        ctx = self.ctx
        leave = self.leave(self.suspect)
        self.withdrawn = True  # after this either the store or the renewer has the leave
        try:
            # The leave must end by 2 * GRACE_S after the time-out, but it has at least GRACE_S.
            within = max(GRACE_S, min(self.end + 2 * GRACE_S - ctx.now(), 2 * GRACE_S))
            await ctx.store.leave(leave, within)
        except StoreUnavailable:
            ctx.keeper.later(leave, ctx.now() + self.spec.ttl)
            raise
        except BaseException:
            self.withdrawn = False
            raise


async def acquire(
    lock: LockBase, timeout: float | None, begun: float
) -> tuple[HoldBase | None, str]:
    """Return a hold, or None and the holder (if the store named it) when the time has expired.

    ``timeout``: None waits without a time limit, 0 and ``checks.TRY`` are one try. ``begun``: the
    moment from which the time-out counts. If the name is free, this takes one round trip. The hold
    is made here, so that at each moment either the hold or the ``except`` below ends the claim.
    """
    ctx, spec, terms = lock._ctx, lock._spec, lock._terms
    if ctx.orphans:
        ctx.drain_orphans()
    attempt = Attempt(ctx, spec, terms, timeout, begun)
    lease = hold = None
    try:
        try:  # inline, not in a separate coroutine: nearly every acquire does only this
            standing = attempt.learn(await attempt.ask())
        except StoreUnavailable as failure:
            standing = await attempt.join(failure)
        while True:
            grant = attempt.grant(standing) or await attempt.run(standing)
            if grant is None:
                attempt.settle()
                return None, attempt.holder
            lease = _lease(ctx, attempt, grant, terms)
            # If the grant came too late, no hold is made: its loss would be reported.
            hold = lock._make(lease) if ctx.now() < lease.deadline else None
            attempt.settle()  # not in a `finally`: an interrupt there would leave the claim behind
            if hold is not None and ctx.now() < lease.deadline and not ctx.closed:
                return hold, ""
            _forgo(ctx, lease, hold)
            ctx.require_open()
            await attempt.too_late()
            standing = await attempt.join()
    except GeneratorExit:  # the coroutine is being closed: nothing may be awaited
        ctx.keeper.later(attempt.leave(suspect=True), ctx.now() + spec.ttl)
        _forgo(ctx, lease, hold)
        attempt.settle()
        raise
    except BaseException:
        try:
            _forgo(ctx, lease, hold)
            attempt.settle()
        finally:
            if not attempt.withdrawn:
                await ctx.undo(attempt.leave(suspect=True), attempt.limit + GRACE_S)
        raise


def _forgo(ctx: Context, lease: Lease | None, hold: HoldBase | None) -> None:
    """Discard a hold that was granted too late; the caller withdraws its claim."""
    if hold is not None:
        hold._forgo()
    elif lease is not None:
        lease.closing = True
        ctx.keeper.drop(lease)


def _lease(ctx: Context, attempt: Attempt, grant: tuple[int, float], terms: Terms) -> Lease:
    fence, until = grant
    sent = attempt.heard
    until = min(until, sent + terms.max_hold)
    lease = Lease(attempt.claim, fence, until, sent, terms, attempt.suspect)
    if terms.min_hold:  # from now: a push may grant long after the last request was sent
        lease.min_until = ctx.now() + terms.min_hold
    if terms.auto_renew:
        left = until - sent
        if attempt.pushed:
            ctx.keeper.add_pushed(lease, sent + ctx.store.patience * PUSHED_RENEW_PART)
        elif left < lease.ttl * WHOLE_PART:  # a repeated join: part of the lease has passed
            ctx.keeper.add_early(lease, sent + left / 3)
        else:
            ctx.keeper.add(lease, sent + lease.every)
    return lease
