"""Going on with a hold that another process detached.

Adopting exchanges the claim's secret id for a new one, in one atomic step of the store. So of two
who adopt the same token one gets the hold, and the other ``NotHeld``; and whoever detached it
can't get it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import NotHeld, NotSupported
from . import token
from .lease import Lease, Terms
from .model import Claim, Gone, Held, Keep, Leave, Loss, Standing
from .policy import REQUEST_S, deadline

if TYPE_CHECKING:
    from .context import Context
    from .hold import HoldBase


async def adopt(ctx: Context, text: str, terms: Terms) -> HoldBase:
    """The hold that the token stands for, from now on ours; ``NotHeld`` if it is gone or taken."""
    if not ctx.store.capabilities.detach:
        raise NotSupported(
            f"{ctx.store.label} can't adopt a hold: it belongs to the process that took it"
        )
    claim, fence = token.read(text, ctx.owner)
    fresh = claim._replace(id=ctx.runtime.new_id())
    undo = Leave(claim.spec.name, fresh.id, fence, 0.0, True, claim.spec.ttl)
    hold: HoldBase | None = None
    try:
        answer, sent, retried = await _exchange(ctx, claim, fence, fresh.id)
        if isinstance(answer, Held):
            until = deadline(sent, answer.expires_in)
            hold = _hold(ctx, Lease(fresh, fence, until, sent, terms, retried), sent, terms)
            if ctx.now() < until:
                return hold
    except (Exception, GeneratorExit):
        raise
    except BaseException:  # cancelled or Ctrl-C: if the exchange took place, nobody has the id
        try:
            if hold is not None:
                hold._forgo()
        finally:
            await ctx.undo(undo)
        raise
    what = f"the detached hold on {claim.spec.name!r} (fence {fence})"
    if hold is not None:  # we were stopped meanwhile
        hold._forgo()
        await ctx.put_back(undo)
        raise NotHeld(f"{what} was adopted too late: its lease is over")
    reason = answer.reason if isinstance(answer, Gone) else Loss.EXPIRED
    raise NotHeld(f"{what} can't be adopted: {reason}, or another has adopted it")


async def _exchange(
    ctx: Context, claim: Claim, fence: int, new_id: str
) -> tuple[Standing, float, bool]:
    """Ask until it is answered: the standing, when that request was sent, was it repeated."""
    keep = Keep(claim, fence, claim.spec.ttl, new_id=new_id)
    sent = ctx.now()

    async def ask(within: float) -> Standing:
        nonlocal sent
        sent = ctx.now()
        answer = (await ctx.store.keep([keep], within))[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    answer, retried = await ctx.insist(ask, sent + REQUEST_S)
    return answer, sent, retried


def _hold(ctx: Context, lease: Lease, sent: float, terms: Terms) -> HoldBase:
    """The hold of an adopted lease, kept alive."""
    hold = ctx.hold_class(ctx, lease)
    if terms.on_lost is not None:
        lease.callbacks.append(terms.on_lost)
    if terms.auto_renew:
        ctx.keeper.add(lease, sent + lease.every)
    else:
        ctx.keeper.watch(lease)
    return hold
