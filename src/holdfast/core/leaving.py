"""Several releases of one hold at the same time, of which at most one finds the claim.

A release that found no claim decides nothing while another release is under way: it waits for that
release. If no release found the claim, another process has ended the hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StoreUnavailable
from .model import Loss

if TYPE_CHECKING:
    from .context import Context
    from .lease import Lease


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
