"""The hold: the object that an acquire returns to its caller.

The lease of a hold is a separate object, which can outlive the hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..errors import LockLost, NotHeld, NotSupported, StoreUnavailable
from . import checks, leaving
from .door import give_back
from .lease import Lease, OnLost
from .model import Change, Gone, Held, Leave, Loss, Renewal, State
from .plain import visible
from .policy import REQUEST_S
from .refused_with import OneWith

if TYPE_CHECKING:
    from .context import Context
    from .lock import LockBase


class HoldBase(OneWith):
    """A hold on a name: the proof of ownership, and the way to release it."""

    __slots__ = (
        "__weakref__",
        "_at",
        "_count",
        "_ctx",
        "_epoch",
        "_flow",
        "_lease",
        "_lock",
        "_strict",
    )
    _at: Any  # the position of the acquire, unless a `with` over the lock made it: `place.Spot`

    def __init__(
        self, ctx: Context, lease: Lease, lock: Callable[[], LockBase | None] | None = None
    ) -> None:
        self._ctx = ctx
        self._lease = lease
        #: A weak reference to the lock object. The lock refers to this hold; a cycle of strong
        #: references would delay the collection of a forgotten hold.
        self._lock = lock
        self._epoch = ctx.epoch
        self._count = 1
        #: The thread or task that holds it, for reentrant locks and read-write locks.
        self._flow: Any = None
        self._strict = False
        lease.hold_ref = ref(self)
        if not lease.renewing:
            ctx.unrenewed.add(self)

    # -- state -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name that is held."""
        return self._lease.claim.spec.name

    @property
    def owner(self) -> str:
        """The owner, as others see it: ``host:pid:label``."""
        return self._lease.claim.spec.owner

    @property
    def fence(self) -> int:
        """The fencing token: greater than that of every earlier grant of this name.

        Send it to the resource that the lock protects; the resource refuses a smaller one
        (``holdfast.fenced``). ``NotSupported`` if the store has no fences.
        """
        if not self._ctx.store.capabilities.fences:
            raise NotSupported(
                f"{self._ctx.store.label} gives no fences, so a late write of {self.name!r} can't "
                "be recognised; use a native store of holdfast where a fence is needed"
            )
        return self._lease.fence

    @property
    def weight(self) -> int:
        """The part of the capacity that this hold takes: permits of a semaphore, 1 for a reader."""
        return self._lease.weight

    @property
    def ttl(self) -> float:
        """The length of the lease in seconds."""
        return self._lease.ttl

    @property
    def lost(self) -> Loss | None:
        """The reason of the loss, or None if the hold isn't lost. A loss is permanent."""
        lease = self._lease
        if lease.end is None:
            if self._epoch != self._ctx.epoch:
                lease.reason = lease.reason or Loss.FORKED
            elif self._ctx.closed and not lease.closing:
                lease.reason = lease.reason or Loss.CLOSED
        return lease.loss(self._ctx.now())

    @property
    def state(self) -> State:
        """Held, in jeopardy (renewals fail, deadline not reached), lost, released or detached."""
        if self.lost is not None:
            return State.LOST
        lease = self._lease
        if lease.end is not None:
            return lease.end
        return State.JEOPARDY if lease.failures else State.HELD

    def remaining(self) -> float:
        """Return the seconds for which the hold is valid without another renewal; 0 once it ended.

        The lease counts from the moment before the last answered request was sent, less a margin
        of 1 % and 2 ms. The clock never jumps.
        """
        if self.lost is not None or self._lease.end is not None:
            return 0.0
        return max(0.0, self._lease.deadline - self._ctx.now())

    def check(self) -> None:
        """Raise ``LockLost`` if the hold is lost, ``NotHeld`` if it was released.

        It costs no round trip. The process can pause after the check, and the hold can be lost
        then: only the fence protects against that.
        """
        reason = self.lost
        if reason is not None:
            raise LockLost(self._story(reason), reason)
        if self._lease.end is not None:
            raise NotHeld(f"the hold on {self.name!r} was {self._lease.end}; acquire it again")

    def on_lost(self, call: OnLost) -> None:
        """Call ``call(hold, reason)`` once when the hold is lost.

        ``call`` runs on the renewer's thread or task. If the loss is already known, it runs at
        once, in the caller's. An exception that it raises is logged. While it blocks, no hold of
        this client is renewed: so it should only set a flag or start a thread.
        """
        checks.callback(call, self._ctx.runtime.awaits)
        self._lease.callbacks.append(call)
        if self._lease.end is State.LOST:
            self._ctx.keeper.tell(self._lease)
        else:
            self._ctx.keeper.watch(self._lease)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.name!r}{self._ctx.fence_of(self._lease, ' fence={}')}"
            f" {self.state} remaining={self.remaining():.3f}s>"
        )

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a hold on {self.name!r} can't be pickled: it belongs to one process. "
            "Use hold.detach() there and client.adopt(token) here"
        )

    def __del__(self) -> None:
        lease = getattr(self, "_lease", None)
        if lease is not None and lease.end is None and not lease.closing:
            lease.orphan = True
            if lease.reason is None and self._epoch == self._ctx.epoch:
                self._ctx.orphans.append(lease)

    # -- changes ---------------------------------------------------------------------------

    async def _release(self) -> bool:
        level = self._count
        try:
            if self._flow is not None and not self._ctx.flows.let_go(self):
                return True
            lease, ctx = self._lease, self._ctx
            if lease.end is None:
                now = ctx.now()
                if now >= lease.deadline or self._epoch != ctx.epoch or ctx.closed:
                    lease.reason = self.lost  # checked before anything is sent
                if lease.reason is None or not self._forked():
                    # These steps come before the send, so that the renewer reports no false loss.
                    # All other work comes after it, because the next waiter waits for the send.
                    leave = self._leave_of(lease)
                    lease.sent = leave
                    ctx.under_way[lease] = lease.again
                    lease.closing = True
                    lease.leaving += 1
                    until = min(max(lease.deadline, now + 0.05), now + REQUEST_S)
                    try:  # inline, not in a separate coroutine: usually nothing else is sent
                        there = await ctx.store.leave(leave, until - now)
                    except BaseException as failure:
                        ctx.keeper.drop(lease)
                        there = await leaving.again(ctx, lease, leave, until, failure)
                    lease.leaving -= 1
                    if not there and lease.leaving:
                        await leaving.others(ctx, lease, until)
                    self._gave_back(lease, there)
            else:
                lease.before = lease.reason
            self._step_back()
            return lease.reason is None
        except Exception:
            raise
        except BaseException:
            self._cut(level)
            raise

    @property
    def _before(self) -> Loss | None:
        """The reason of a loss that came before the release began, or None."""
        return self._lease.before

    def _forked(self) -> bool:
        """True if the parent process owns the lost hold, so that nothing is sent."""
        lease = self._lease
        lease.before = lease.reason
        if lease.reason is Loss.FORKED:
            lease.closing, lease.end = True, State.LOST
        return lease.reason is Loss.FORKED

    async def _exit(self, failure: BaseException | None) -> None:
        """Release the hold after the body of a ``with`` over it."""
        level = self._count
        try:
            await give_back(self, self._what, failure)
        except Exception:
            raise
        except BaseException:
            self._cut(level)
            raise

    def _what(self) -> str:
        """Return the kind and the name, for messages."""
        return f"{self._lease.claim.spec.kind} {self.name!r}"

    def _cut(self, level: int) -> None:
        """Finish the release of this level of reentry, after an interrupt at any point in it.

        It is safe to call this twice."""
        if self._flow is not None and level > 1:
            self._count = min(self._count, level - 1)
        else:
            self._abandon()

    def _abandon(self) -> None:
        """Release the hold without awaiting anything: the renewer sends the release."""
        lease, ctx = self._lease, self._ctx
        if lease.end is None and self.lost is not Loss.FORKED:
            ctx.keeper.later(self._leave_of(lease), lease.deadline)
        self._forgo()

    def _forgo(self) -> None:
        """End the hold in this client only; the caller must withdraw the claim from the store."""
        lease, ctx = self._lease, self._ctx
        ctx.flows.forget(self)
        if lease.end is None:
            self._over(State.RELEASED)
            ctx.keeper.drop(lease)
        self._step_back()

    def _over(self, end: State) -> None:
        """End the hold without a loss: no callback runs, and all waits for its end are woken."""
        self._lease.closing, self._lease.end = True, end
        self._ctx.under_way.pop(self._lease, None)
        self._wake()

    def _wake(self) -> None:
        self._lease.callbacks.clear()
        for latch in list(self._lease.latches):
            latch.set()

    def _step_back(self) -> None:
        lock = self._lock() if self._lock is not None else None
        if lock is not None:
            lock._given.pop(self, None)

    def _gave_back(self, lease: Lease, there: bool) -> None:
        """Note the answer to a release. ``there``: True if the store still had the claim."""
        self._ctx.under_way.pop(lease, None)
        if lease.end is not None:
            return
        self._ctx.keeper.drop(lease)
        if not there and lease.reason is None:
            lease.reason = leaving.missing(lease, self._ctx.now())
        lease.end = State.RELEASED
        if lease.callbacks or lease.latches:
            self._wake()

    def _leave_of(self, lease: Lease) -> Leave:
        """Return the request that releases the claim, now or when ``min_hold`` has ended."""
        after = max(0.0, lease.min_until - self._ctx.now()) if lease.min_until else 0.0
        claim = lease.claim
        name, longest = claim.spec.name, lease.longest_asked
        return tuple.__new__(Leave, (name, claim.id, lease.fence, after, lease.suspect, longest))

    async def _extend(self, ttl: Any = None) -> float:
        self.check()
        lease, keeper = self._lease, self._ctx.keeper
        length = lease.ttl if ttl is None else min(checks.ttl(ttl), self._ctx.store.lease_max)
        sent = self._ctx.now()
        if length < lease.ttl:
            # This comes before the send: the store can cut the lease even if its answer is lost.
            shorter = lease.shorten(sent, length)
            keeper.pace(lease, sent)
            await self._renew(lease.renewal(sent, length))
            shorter.answered(self._ctx.now())
            return self.remaining()
        lease.longest_asked = max(lease.longest_asked, length)
        await self._renew(lease.renewal(sent, length))
        if length > lease.ttl:  # only now: if the request fails, the old interval stays
            lease.ttl = length
            keeper.pace(lease, sent)
        return self.remaining()

    async def _downgrade(self) -> None:
        self.check()
        lease = self._lease
        if lease.claim.spec.weight == 1:
            return
        if self._count > 1:
            raise NotSupported(
                f"the write hold on {self.name!r} was entered {self._count} times; "
                "leave the inner ones before the downgrade"
            )
        lease.weight = 1  # now: the store may grant a reader before its answer arrives here
        await self._renew(lease.renewal(self._ctx.now()))

    async def _detach(self, ttl: Any = None) -> str:
        from .across import detach  # here, because few programs detach

        return await detach(self, ttl)

    async def _wait_lost(self, timeout: Any = None) -> Loss | None:
        wait = checks.wait(True, timeout)
        ctx, lease = self._ctx, self._lease
        end = math.inf if wait is None else ctx.now() + wait
        latch = ctx.runtime.latch()
        lease.latches.append(latch)
        ctx.keeper.watch(lease)
        try:
            while self.lost is None and lease.end is None and (now := ctx.now()) < end:
                await latch.wait(max(min(end, lease.deadline) - now, 0.0))
        finally:
            lease.latches.remove(latch)
        return lease.reason

    async def _renew(self, request: Renewal | Change) -> None:
        """Send one request at once; raise an error if the hold isn't renewed."""
        ctx, lease = self._ctx, self._lease
        sent = ctx.now()
        within = min(REQUEST_S, max(lease.deadline - sent, 0.05))
        if isinstance(request, Change):
            answer: object = await ctx.store.change(request, within)
        else:
            (answer,) = await ctx.store.renew([request], within)
        if isinstance(answer, Gone) and lease.closing:
            raise NotHeld(f"{self.name!r} was released meanwhile; acquire it again")
        if isinstance(answer, Held):
            same = answer.fence == lease.fence  # else: expired, then a late join was granted
            if same and lease.renewed(sent, answer.expires_in, ctx.now()):
                return
            answer = Gone(lease.reason or Loss.EXPIRED)
            if not same:  # nothing else withdraws the claim of that join
                ctx.keeper.later(lease.undo(answer.reason), ctx.now() + lease.longest_asked)
        if isinstance(answer, Gone):
            lease.reason = lease.reason or answer.reason
            ctx.keeper.lose(lease, lease.reason)
            raise LockLost(self._story(lease.reason), lease.reason)
        if isinstance(answer, Exception):
            raise answer
        raise StoreUnavailable(f"{ctx.store.label} reports that the held {self.name!r} waits")

    def _story(self, reason: Loss) -> str:
        return (
            f"lost {self.name!r} ({self._ctx.fence_of(self._lease, 'fence {}, ')}owner "
            f"{visible(self.owner)}): {reason}. Stop the work that it protects; acquire it again"
        )
