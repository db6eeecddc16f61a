"""Continue a hold that another process detached.

Adopting exchanges the claim's secret id for a new one, in one atomic step of the store. So if two
processes adopt the same token, one gets the hold, and the other gets ``NotHeld``. The process that
detached the hold can't use it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import NotHeld
from . import across, token
from .lease import Lease, Terms
from .model import Change, Held, Leave
from .policy import REQUEST_S, deadline

if TYPE_CHECKING:
    from .context import Context
    from .hold import HoldBase


async def adopt(ctx: Context, text: str, terms: Terms) -> HoldBase:
    """Return a hold for this token; ``NotHeld`` if the detached hold has ended or was adopted."""
    across.require(ctx.store)
    passed = token.read(text)
    claim, fence, left = passed.claim, passed.fence, passed.left
    claim = claim._replace(spec=claim.spec._replace(owner=ctx.owner))
    renews = terms.auto_renew and left.renews
    terms = terms._replace(
        auto_renew=renews, max_hold=max(left.longest, 0.001), min_hold=left.least
    )
    length = min(claim.spec.ttl, terms.max_hold)
    until = ctx.now() + REQUEST_S
    await across.renew(ctx, passed, length, until)
    fresh = claim._replace(id=ctx.runtime.new_id())
    undo = Leave(claim.spec.name, fresh.id, fence, 0.0, True, claim.spec.ttl)
    hold: HoldBase | None = None
    ctx.under_way[undo] = lambda: (undo,)
    try:
        ctx.require_open()
        change = Change(claim, fence, length, fresh.id)
        answer, sent, retried = await across.ask(ctx, change, until)
        if isinstance(answer, Held):
            ends = min(deadline(sent, min(answer.expires_in, length)), sent + terms.max_hold)
            hold = _hold(ctx, Lease(fresh, fence, ends, sent, terms, retried), sent, terms)
            if ctx.now() < ends:
                ctx.under_way.pop(undo, None)  # here: an interrupt after the `return` would skip it
                return hold
    except BaseException as stop:  # the store may still set the new id, which no caller has
        try:
            if hold is not None:
                hold._forgo()
        finally:
            if isinstance(stop, GeneratorExit):  # nothing may be awaited
                ctx.keeper.later(undo, ctx.now() + undo.ttl)
            else:
                await ctx.undo(undo)
        raise
    finally:
        if undo in ctx.under_way:
            ctx.under_way.pop(undo, None)
    if hold is not None:  # its deadline passed before it could be returned
        hold._forgo()
        await ctx.put_back(undo)
        raise NotHeld(f"{across.what(claim, fence)} was adopted too late: its lease has ended")
    raise await across.gone(ctx, passed, answer)


def _hold(ctx: Context, lease: Lease, sent: float, terms: Terms) -> HoldBase:
    """Return the hold of an adopted lease; the renewal or the expiry of the lease is then
    scheduled."""
    hold = ctx.hold_class(ctx, lease)
    if terms.on_lost is not None:
        lease.callbacks.append(terms.on_lost)
    if terms.min_hold:
        lease.min_until = ctx.now() + terms.min_hold
    if terms.auto_renew and lease.deadline < sent + lease.every:
        ctx.keeper.add_early(lease, lease.deadline)  # max_hold allows no renewal
    elif terms.auto_renew:
        ctx.keeper.add(lease, sent + lease.every)
    else:
        ctx.keeper.watch(lease)
    return hold
