"""Several releases of one hold at the same time, of which at most one finds the claim.

A release that found no claim decides nothing while another release is under way: it waits for that
release. If no release found the claim, another process has ended the hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StoreUnavailable
from .asking import Asking
from .model import Leave, Loss

if TYPE_CHECKING:
    from .context import Context
    from .lease import Lease


async def again(
    ctx: Context, lease: Lease, leave: Leave, until: float, failure: BaseException
) -> bool:
    """Repeat the first, failed leave of a hold until ``until``. Return True if the hold was
    released.

    If the reply to the first leave was lost, a repeated one finds no claim. Before our deadline
    this means that the first leave released it. If an interrupt comes, the claim is withdrawn. If
    the hold was lost already, a silent store is no error: the renewer repeats the leave.
    """
    asking = Asking(ctx)
    try:
        try:
            if not isinstance(failure, StoreUnavailable):
                raise failure
            await asking.again(failure, until)
            there = await asking.insist(lambda within: ctx.store.leave(leave, within), until)
        except (StoreUnavailable, GeneratorExit):  # GeneratorExit: nothing may be awaited
            ctx.keeper.later(leave, lease.deadline + leave.ttl)
            raise
        except BaseException:
            await ctx.undo(leave)
            raise
    except BaseException as late:
        if lease.reason is not None and isinstance(late, StoreUnavailable):
            return False
        failed(ctx, lease, late)
        raise
    finally:
        del failure  # its traceback would keep itself and the caller's objects alive
    return there or ctx.now() < lease.deadline


async def others(ctx: Context, lease: Lease, until: float) -> None:
    """Wait until another release has ended the hold, or until none is under way."""
    latch = ctx.runtime.latch()
    lease.latches.append(latch)
    try:
        while lease.end is None and lease.leaving and (now := ctx.now()) < until:
            await latch.wait(until - now)
    finally:
        lease.latches.remove(latch)


def failed(ctx: Context, lease: Lease, failure: BaseException) -> None:
    """Note that a release ended without an answer; the store may have carried out the release."""
    ctx.under_way.pop(lease, None)
    lease.leaving -= 1
    lease.unheard |= isinstance(failure, StoreUnavailable) or not isinstance(failure, Exception)
    for latch in list(lease.latches):
        latch.set()


def missing(lease: Lease, now: float) -> Loss | None:
    """Return the loss after a release found no claim, or None if it means no loss.

    Before the deadline it means no loss if another release got no answer: that release has ended
    the claim.
    """
    if now >= lease.deadline:
        return Loss.EXPIRED
    return None if lease.unheard or lease.leaving else Loss.BROKEN
