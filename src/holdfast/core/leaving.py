"""Several releases of one hold at the same time: exactly one of them succeeds.

So an answer that the claim was not there decides nothing while another release is under way: it
waits for that one. If none of them found the claim, somebody had taken it from us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import StoreUnavailable
from .model import Loss

if TYPE_CHECKING:
    from .context import Context
    from .lease import Lease


async def others(ctx: Context, lease: Lease, until: float) -> None:
    """Wait until one of the other releases has decided, or none is under way."""
    latch = ctx.runtime.latch()
    lease.latches.append(latch)
    try:
        while lease.end is None and lease.leaving and (now := ctx.now()) < until:
            await latch.wait(until - now)
    finally:
        lease.latches.remove(latch)


def failed(ctx: Context, lease: Lease, failure: BaseException) -> None:
    """A release has ended without an answer; what it sent may have been done."""
    ctx.under_way.pop(lease, None)
    lease.leaving -= 1
    lease.unheard |= isinstance(failure, StoreUnavailable) or not isinstance(failure, Exception)
    for latch in list(lease.latches):
        latch.set()


def missing(lease: Lease, now: float) -> Loss | None:
    """Why no claim was found, by the last answer. Before our deadline one that wasn't answered has
    given it back."""
    if now >= lease.deadline:
        return Loss.EXPIRED
    return None if lease.unheard or lease.leaving else Loss.BROKEN
