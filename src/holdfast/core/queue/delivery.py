"""The delivery that a worker uses; its lease is a separate object."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any
from weakref import ref

from ...errors import LockLost, NotHeld, StoreUnavailable
from .. import checks
from ..model import Loss, State
from ..refused_with import OneWith
from . import payload
from .lease import DeliveryLease
from .model import DELAY_S_MAX, Settle, Verdict
from .policy import retry_after
from .settling import Settling

if TYPE_CHECKING:
    from ..context import Context
    from .queue import Retry

log = logging.getLogger("holdfast")


class DeliveryBase(OneWith):
    """A job that a worker has taken. Until it is settled or its lease ends, no other worker gets
    this job or another job of its group."""

    __slots__ = ("__weakref__", "_ctx", "_epoch", "_kept", "_lease", "_retry", "_verdict")

    def __init__(self, ctx: Context, lease: DeliveryLease, retry: Retry) -> None:
        self._ctx = ctx
        self._lease = lease
        self._epoch = ctx.epoch
        self._retry = retry
        #: True if a settle counted.
        self._kept = False
        #: The verdict of the settle that counted, or of an unanswered settle.
        self._verdict: Verdict | None = None
        lease.hold_ref = ref(self)  # type: ignore[assignment]

    # -- state -----------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id of the job: the producer chose it, or `put` made it."""
        return self._lease.job.id

    @property
    def payload(self) -> Any:
        """The payload that was put: bytes, text or JSON data."""
        return payload.unpack(self._lease.job.payload)

    @property
    def queue(self) -> str:
        """The name of the queue."""
        return self._lease.take.queue

    @property
    def group(self) -> str | None:
        """The group of the job; None if it is ungrouped."""
        return self._lease.job.group or None

    @property
    def attempt(self) -> int:
        """The number of this delivery of the job, from 1."""
        return self._lease.job.attempt

    @property
    def fence(self) -> int:
        """The fencing token: greater than that of each earlier delivery of this group; for an
        ungrouped job, of this job. Send it to each resource to which the job writes
        (``holdfast.fenced``)."""
        return self._lease.fence

    @property
    def age(self) -> float:
        """Seconds between the acceptance of the job and this delivery."""
        return self._lease.job.age

    @property
    def lost(self) -> Loss | None:
        """The reason of the loss, or None if the delivery isn't lost. A loss is permanent."""
        lease = self._lease
        if lease.end is None:
            if self._epoch != self._ctx.epoch:
                lease.reason = lease.reason or Loss.FORKED
            elif self._ctx.closed and not lease.closing:
                lease.reason = lease.reason or Loss.CLOSED
        return lease.loss(self._ctx.now())

    @property
    def settled(self) -> bool:
        """True if the delivery was settled: by ack, retry, dead letter or release."""
        return self._lease.end is State.RELEASED

    def remaining(self) -> float:
        """Return the seconds for which the delivery is valid without a renewal; 0 after its end."""
        if self.lost is not None or self._lease.end is not None:
            return 0.0
        return max(0.0, self._lease.deadline - self._ctx.now())

    def check(self) -> None:
        """Raise ``LockLost`` if the delivery is lost, ``NotHeld`` if it was settled.

        It costs no round trip. The process can pause after the check, and the delivery can be lost
        then: only the fence protects against that.
        """
        reason = self.lost
        if reason is not None:
            raise LockLost(
                f"the delivery of {self._what()} was lost: {reason}. The job is delivered again, "
                "maybe to another worker; undo its last side effects (fenced writes are refused)",
                reason,
            )
        if self._lease.end is not None:
            raise NotHeld(f"{self._what()} was settled; it is no longer yours")

    def _what(self) -> str:
        return f"job {self.id!r} of {self._lease.name!r}"

    def __repr__(self) -> str:
        stands = "settled" if self.settled else "lost" if self.lost else "not settled"
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
        """Return a request for another attempt, or for a dead letter after the last attempt."""
        lease, retry = self._lease, self._retry
        if lease.last:
            text = reason or f"attempt {self.attempt} was the last"
            return lease.settle(Verdict.DEAD, reason=payload.short(text))
        if in_ is None:
            pause = retry_after(self.attempt, *retry, self._ctx.runtime.jitter())
        else:
            pause = checks.seconds("in_", in_, 0.0, DELAY_S_MAX)
        return lease.settle(Verdict.RETRY, pause, payload.short(reason))

    def _dead_request(self, reason: str) -> Settle:
        return self._lease.settle(
            Verdict.DEAD, reason=payload.short(reason or "given up by its worker")
        )

    def _return_request(self) -> Settle:
        return self._lease.settle(Verdict.RETURN)

    async def _settle(self, settle: Settle) -> bool:
        """Settle the delivery; return True if this settle counted. A later call with the same
        verdict then returns True as well; a later call with another verdict returns False."""
        await Settling(self._ctx, ((self, settle),)).run()
        return self._counted(settle)

    def _counted(self, settle: Settle) -> bool:
        return self._kept and self._verdict is settle.verdict

    def _hand_over(self, settle: Settle) -> None:
        """Let the renewer settle the delivery, without awaiting anything."""
        Settling(self._ctx, ((self, settle),)).interrupted()

    def _forgo(self) -> None:
        """Discard a delivery that came too late; the caller releases its take."""
        self._lease.closing, self._lease.end = True, State.LOST
        self._ctx.keeper.drop(self._lease)

    def _still_open(self) -> bool:
        """Return True if the delivery can still be settled."""
        lease = self._lease
        if lease.end is None and self.lost is not None:
            lease.unsure = lease.asked
            lease.closing, lease.end = True, State.LOST
            self._ctx.keeper.drop(lease)
        return lease.end is None

    def _keep_on(self, asked: bool, verdict: Verdict | None = None) -> None:
        """Continue to renew the delivery after a failed settle, so that another settle is possible.
        ``asked``: True if the outcome of the settle is unknown."""
        lease = self._lease
        if self.settled:
            return  # by another settle
        lease.closing = lease.settling > 0
        self._verdict = verdict or self._verdict
        if asked and not lease.asked:
            # If a renewal now finds no lease, the settle has most likely counted.
            lease.asked, lease.grave = True, False
            lease.callbacks.append(_gone_after_all)  # type: ignore[arg-type]
        if lease.renewing and not lease.closing:
            self._ctx.keeper.add_early(lease, self._ctx.now())
        self._wake()

    def _entrust(self, settle: Settle) -> None:
        """Let the renewer settle the delivery while its lease lasts."""
        self._lease.closing = True
        self._ctx.keeper.later(settle, self._lease.deadline)
        self._over(True, settle.verdict)

    def _give_up(self, settle: Settle) -> None:
        """Stop renewing the delivery, because the caller's last try to settle the delivery failed.
        Until the lease ends, the renewer repeats the settle; after that, the job is delivered
        again."""
        if self._lease.end is None and not self._lease.settling:
            self._lease.closing = True
            self._ctx.keeper.later(settle, self._lease.deadline)
            self._over(False)

    def _over(self, kept: bool, verdict: Verdict | None = None) -> None:
        lease = self._lease
        self._kept, self._verdict = kept, verdict or self._verdict
        if not kept and lease.reason is None:
            lease.reason = Loss.EXPIRED
        lease.end = State.RELEASED if kept else State.LOST
        self._ctx.keeper.drop(lease)
        self._wake()

    def _wake(self) -> None:
        """Wake the callers that wait for another settle of this delivery."""
        for latch in list(self._lease.latches):
            latch.set()

    async def _leave(self, failure: BaseException | None) -> None:
        """Ack or retry the job after the body of a ``with`` over this delivery."""
        if self.settled:
            return
        if failure is None:
            await self._finish()
        elif isinstance(failure, GeneratorExit):
            # The generator around the body is being closed: nothing may be awaited. A garbage
            # collection can close the generator, in the middle of a call of the store by this
            # thread.
            if self._still_open():
                self._entrust(self._verdict_on(failure))
        else:
            with contextlib.suppress(StoreUnavailable):
                await self._settle_last(self._verdict_on(failure))

    async def _settle_last(self, settle: Settle) -> None:
        """Settle the delivery for a caller that doesn't try again after a failure."""
        try:
            await self._settle(settle)
        except Exception:
            self._give_up(settle)
            raise

    async def _finish(self) -> None:
        """Ack the job after its work; ``LockLost`` if the delivery was lost before. If the store
        doesn't answer before the lease ends, nothing is raised for work that ended before the
        loss."""
        protected, ack = self.lost is None, self._ack_request()
        try:
            await self._settle(ack)
        except StoreUnavailable as failure:
            self._go_on(ack, failure)
        except Exception:
            self._give_up(ack)
            raise
        self._require_kept(protected)

    def _go_on(self, ack: Settle, failure: StoreUnavailable) -> None:
        """Let the renewer repeat an unanswered ack of work that was done in time."""
        if self.settled:
            return  # by another settle
        log.warning(
            "%r: %s; its ack is repeated in the background; if the lease ends before the ack is "
            "answered, the job is delivered again",
            self,
            failure,
        )
        self._entrust(ack)

    def _require_kept(self, protected: bool) -> None:
        """Raise ``LockLost`` if the ack doesn't count. ``protected``: True if the work ended before
        the loss; then nothing is raised if the store just didn't answer before the lease ended."""
        if self._kept:
            return
        if protected and self._lease.unsure:
            log.warning(
                "%r: done in time, but its ack was not answered before its lease ended; the job "
                "may be delivered again",
                self,
            )
            return
        raise LockLost(
            f"the delivery of {self._what()} was lost before its body ended: {self.lost}. The job "
            "is delivered again; undo the last side effects of its body (fenced writes were "
            "refused)",
            self.lost,
        )

    def _verdict_on(self, failure: BaseException) -> Settle:
        """Return the settle after this exception of the work. An attempt that was cancelled or
        interrupted doesn't count; any other failed attempt does."""
        if self._ctx.runtime.interrupts(failure):
            return self._return_request()
        return self._failed_request(failure)

    def _failed_request(self, failure: BaseException) -> Settle:
        """Return a request for another attempt after a failure, or for a dead letter after the last
        attempt."""
        return self._retry_request(None, payload.text_of(failure))


def _gone_after_all(job: DeliveryBase, reason: Loss) -> None:
    """Handle the loss of a delivery with an unanswered settle. If the store no longer has the
    delivery before its lease has expired, that settle has counted."""
    lease = job._lease
    if reason is Loss.EXPIRED and job._ctx.now() < lease.deadline:
        job._kept = True
        lease.reason, lease.end = None, State.RELEASED
