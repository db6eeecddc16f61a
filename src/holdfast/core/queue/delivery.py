"""A delivery as its worker has it: the caller's part; our part of it is its lease."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from ...errors import LockLost, NotHeld, StoreUnavailable
from .. import checks
from ..model import Loss, State
from ..policy import REQUEST_S
from . import payload
from .lease import DeliveryLease
from .model import ATTEMPTS_MAX, BATCH_MAX, DELAY_S_MAX, REASON_BYTES_MAX, Settle, Verdict
from .policy import retry_after
from .ports import queues_of

if TYPE_CHECKING:
    from ..context import Context
    from .queue import Retry


class DeliveryBase:
    """A job on loan: nobody else gets it, or another one of its group, until it is settled."""

    __slots__ = ("__weakref__", "_ctx", "_epoch", "_kept", "_lease", "_retry")

    def __init__(self, ctx: Context, lease: DeliveryLease, retry: Retry) -> None:
        self._ctx = ctx
        self._lease = lease
        self._epoch = ctx.epoch
        self._retry = retry
        #: Once settled: did it count?
        self._kept = False
        lease.hold_ref = ref(self)  # type: ignore[assignment]
        if not lease.renewing:
            ctx.unrenewed.add(self)  # type: ignore[arg-type]

    # -- looking ---------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The key of the job, as it was put or as `put` made it."""
        return self._lease.job.id

    @property
    def payload(self) -> Any:
        """What was put: bytes, text, or what JSON has."""
        return payload.unpack(self._lease.job.payload)

    @property
    def queue(self) -> str:
        """The name of the queue."""
        return self._lease.take.queue

    @property
    def group(self) -> str | None:
        """Its group; None in the plain lane."""
        return self._lease.job.group or None

    @property
    def attempt(self) -> int:
        """How often it has been delivered, this time included: 1 for the first time."""
        return self._lease.job.attempt

    @property
    def fence(self) -> int:
        """The fencing token: greater than that of every earlier delivery of this group (in the
        plain lane: of this job). Hand it to what the work changes (``holdfast.fenced``)."""
        return self._lease.fence

    @property
    def age(self) -> float:
        """Seconds that had passed since it was accepted, when it was taken."""
        return self._lease.job.age

    @property
    def lost(self) -> Loss | None:
        """Why the delivery is lost, or None while it isn't. Once lost it stays lost."""
        lease = self._lease
        if lease.end is None:
            if self._epoch != self._ctx.epoch:
                lease.reason = lease.reason or Loss.FORKED
            elif self._ctx.closed and not lease.closing:
                lease.reason = lease.reason or Loss.CLOSED
        return lease.loss(self._ctx.now())

    @property
    def settled(self) -> bool:
        """Was it acked, returned or given up?"""
        return self._lease.end is State.RELEASED

    def remaining(self) -> float:
        """Seconds for which the delivery may be believed without another renewal; 0 once over."""
        if self.lost is not None or self._lease.end is not None:
            return 0.0
        return max(0.0, self._lease.deadline - self._ctx.now())

    def check(self) -> None:
        """Raise ``LockLost`` if the delivery is lost, ``NotHeld`` if it was settled.

        It costs no round trip. It can't see a pause that comes after it: that is what the fence
        is for.
        """
        reason = self.lost
        if reason is not None:
            raise LockLost(
                f"the delivery of {self._what()} was lost: {reason}. It comes again, maybe to "
                "another worker; what was done last may need undoing (fenced writes are refused)",
                reason,
            )
        if self._lease.end is not None:
            raise NotHeld(f"{self._what()} was settled; it is no longer yours")

    def _what(self) -> str:
        return f"job {self.id!r} of {self._lease.name!r}"

    def __repr__(self) -> str:
        stands = "settled" if self.settled else "lost" if self.lost else "on loan"
        return f"<{type(self).__name__} {self._what()} attempt={self.attempt} {stands}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{self._what()} can't be pickled: a delivery belongs to one process")

    def __del__(self) -> None:
        lease = getattr(self, "_lease", None)
        if lease is not None and lease.end is None and not lease.closing:
            lease.orphan = True
            if lease.reason is None and self._epoch == self._ctx.epoch:
                self._ctx.orphans.append(lease)

    # -- settling --------------------------------------------------------------------------

    def _ack_request(self) -> Settle:
        return self._lease.settle(Verdict.ACK)

    def _retry_request(self, in_: Any, reason: str) -> Settle:
        """Another attempt, if there is one left."""
        lease, retry = self._lease, self._retry
        if self.attempt >= min(lease.take.patience.attempts, ATTEMPTS_MAX):
            text = reason or f"attempt {self.attempt} was the last"
            return lease.settle(Verdict.DEAD, reason=_short(text))
        if in_ is None:
            pause = retry_after(self.attempt, *retry, self._ctx.runtime.jitter())
        else:
            pause = checks.seconds("in_", in_, 0.0, DELAY_S_MAX)
        return lease.settle(Verdict.RETRY, pause, _short(reason))

    def _dead_request(self, reason: str) -> Settle:
        return self._lease.settle(Verdict.DEAD, reason=_short(reason or "given up by its worker"))

    def _return_request(self) -> Settle:
        return self._lease.settle(Verdict.RETURN)

    async def _settle(self, settle: Settle, again: bool = False) -> bool:
        """Settle it: did it count? Once settled, the answer stays what it was. ``again``: it was
        asked for already, without an answer."""
        await Settling(self._ctx, ((self, settle),)).run(again)
        return self._kept

    def _forgo(self) -> None:
        """It is not to be had after all; its take is given back elsewhere."""
        self._lease.closing, self._lease.end = True, State.LOST
        self._ctx.keeper.drop(self._lease)

    def _still_open(self) -> bool:
        """Can it still be settled?"""
        lease = self._lease
        if lease.end is None and self.lost is not None:
            lease.closing, lease.end = True, State.LOST
            self._ctx.keeper.drop(lease)
        return lease.end is None

    def _keep_on(self) -> None:
        """It isn't known whether it was settled: it is renewed on, and may be settled again."""
        lease = self._lease
        lease.closing = False
        if lease.renewing:
            self._ctx.keeper.add_early(lease, self._ctx.now())

    def _over(self, kept: bool) -> None:
        lease = self._lease
        self._kept = kept
        if not kept and lease.reason is None:
            lease.reason = Loss.EXPIRED
        lease.end = State.RELEASED if kept else State.LOST
        self._ctx.keeper.drop(lease)
        for latch in lease.latches:
            latch.set()

    async def _leave(self, failure: BaseException | None) -> None:
        """The body of a ``with`` over this delivery is over: ack it, or have it tried again."""
        if self._lease.end is not None:
            return
        settle = self._ack_request()
        if failure is not None:
            settle = self._verdict_on(failure)
        try:
            await self._settle(settle)
        except StoreUnavailable:
            if failure is None:
                raise
            return
        if failure is None:
            self._require_kept()

    def _require_kept(self) -> None:
        """Raise ``LockLost`` if that it was settled does not count."""
        if not self._kept:
            raise LockLost(
                f"the delivery of {self._what()} was lost before its body ended: {self.lost}. It "
                "comes again; what the body did last may have to be undone (fenced writes were "
                "refused)",
                self.lost,
            )

    def _verdict_on(self, failure: BaseException) -> Settle:
        """A failed attempt counts; one that was cancelled or interrupted doesn't."""
        if isinstance(failure, Exception):
            return self._retry_request(None, f"{type(failure).__name__}: {failure}")
        return self._return_request()


#: A delivery, and what it is to be settled by.
Done = tuple[DeliveryBase, Settle]


async def settle_all(ctx: Context, some: Sequence[Done]) -> list[bool]:
    """Settle deliveries of one client in one round trip for up to 1,000: which of them counted?"""
    once = list({id(one): (one, settle) for one, settle in some}.values())
    for start in range(0, len(once), BATCH_MAX):
        await Settling(ctx, once[start : start + BATCH_MAX]).run()
    return [one._kept for one, _ in some]


class Settling:
    """Deliveries that are being settled by one request, and what becomes of them by its answer, by
    none, or by an interruption. ``settles``: what is asked of the store, for those of them that
    can still be settled."""

    __slots__ = ("_ctx", "_jobs", "settles")

    def __init__(self, ctx: Context, some: Sequence[Done]) -> None:
        self._ctx = ctx
        self._jobs: list[DeliveryBase] = []
        self.settles: list[Settle] = []
        for one, settle in some:
            if one._still_open():
                one._lease.closing = True  # first, so that the keeper reports no false loss
                self._jobs.append(one)
                self.settles.append(settle)

    def within(self) -> float:
        """How long it may be tried: as long as the leases last, and a moment."""
        end = min([one._lease.deadline for one in self._jobs])
        return min(max(end - self._ctx.now(), 0.05), REQUEST_S)

    async def run(self, again: bool = False) -> None:
        """Settle them. ``again``: it was asked for already, without an answer."""
        if not self.settles:
            return
        ctx = self._ctx
        queues, settles = queues_of(ctx.store), self.settles
        try:
            answers, repeated = await ctx.insist(
                lambda within: queues.settle(settles, within), ctx.now() + self.within()
            )
        except StoreUnavailable:
            for one in self._jobs:
                one._keep_on()
            raise
        except BaseException:
            self.interrupted()
            raise
        self.answered(answers, again or repeated)

    def answered(self, answers: Sequence[bool | Exception], again: bool) -> None:
        """Write down what counted; raises what stands in the place of an answer."""
        ctx, wrong = self._ctx, None
        for one, answer in zip(self._jobs, answers, strict=True):
            if isinstance(answer, LockLost):
                one._lease.reason = one._lease.reason or Loss(str(answer.reason))
                one._over(False)
            elif isinstance(answer, Exception):
                wrong = answer
                one._keep_on()
            else:
                # A repetition whose first reply was lost finds nothing: before our deadline that
                # means that the first one did it.
                one._over(answer or (again and ctx.now() < one._lease.deadline))
        if wrong is not None:
            raise wrong

    def interrupted(self) -> None:
        """Whoever asked is interrupted, and it isn't known how far it came: the keeper sees to it
        that it is done."""
        ctx = self._ctx
        for one, settle in zip(self._jobs, self.settles, strict=True):
            ctx.keeper.later(settle, one._lease.deadline)
            one._over(True)


def _short(reason: object) -> str:
    """A reason, cut to what a store takes."""
    raw = str(reason).encode("utf-8", "backslashreplace")[:REASON_BYTES_MAX]
    return raw.decode("utf-8", "ignore").replace("\0", " ")
