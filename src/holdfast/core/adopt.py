"""Going on with a hold that another process detached.

Adopting exchanges the claim's secret id for a new one, in one atomic step of the store. So of two
who adopt the same token one gets the hold, and the other ``NotHeld``; and whoever detached it
can't get it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigError, NotHeld, NotSupported
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
    claim, fence, left = token.read(text, ctx.owner)
    renews = terms.auto_renew and left.renews
    terms = terms._replace(
        auto_renew=renews, max_hold=max(left.longest, 0.001), min_hold=left.least
    )
    length = min(claim.spec.ttl, terms.max_hold)
    until = ctx.now() + REQUEST_S
    await _require_true(ctx, claim, fence, until, length)
    fresh = claim._replace(id=ctx.runtime.new_id())
    undo = Leave(claim.spec.name, fresh.id, fence, 0.0, True, claim.spec.ttl)
    hold: HoldBase | None = None
    try:
        keep = Keep(claim, fence, length, new_id=fresh.id)
        answer, sent, retried = await _ask(ctx, keep, until)
        if isinstance(answer, Held):
            ends = min(deadline(sent, min(answer.expires_in, length)), sent + terms.max_hold)
            hold = _hold(ctx, Lease(fresh, fence, ends, sent, terms, retried), sent, terms)
            if ctx.now() < ends:
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
    if hold is not None:  # we were stopped meanwhile
        hold._forgo()
        await ctx.put_back(undo)
        raise NotHeld(f"{_what(claim, fence)} was adopted too late: its lease is over")
    raise _gone(claim, fence, answer)


async def _require_true(
    ctx: Context, claim: Claim, fence: int, until: float, length: float
) -> None:
    """Have the store confirm the fence of the token before anything is exchanged.

    A fence that is too great would make each resource that sees it refuse all later holders. To
    keep a detached claim detached changes nothing of it but the end of its lease, so a refusal
    leaves the true token as good as it was.
    """
    answer, _, _ = await _ask(ctx, Keep(claim, fence, length, detach=True), until)
    if not isinstance(answer, Held):
        raise _gone(claim, fence, answer)
    if answer.fence != fence:
        raise ConfigError(
            f"this token was altered: it says that its hold on {claim.spec.name!r} has the "
            f"fence {fence}, but the store says {answer.fence}. Pass on what hold.detach() "
            "returned, as it is"
        )


def _what(claim: Claim, fence: int) -> str:
    return f"the detached hold on {claim.spec.name!r} (fence {fence})"


def _gone(claim: Claim, fence: int, answer: Standing) -> NotHeld:
    reason = answer.reason if isinstance(answer, Gone) else Loss.EXPIRED
    return NotHeld(f"{_what(claim, fence)} can't be adopted: {reason}, or another has adopted it")


async def _ask(ctx: Context, keep: Keep, until: float) -> tuple[Standing, float, bool]:
    """Ask until it is answered: the standing, when that request was sent, was it repeated."""
    sent = ctx.now()

    async def ask(within: float) -> Standing:
        nonlocal sent
        sent = ctx.now()
        answer = (await ctx.store.keep([keep], within))[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    answer, retried = await ctx.insist(ask, until)
    return answer, sent, retried


def _hold(ctx: Context, lease: Lease, sent: float, terms: Terms) -> HoldBase:
    """The hold of an adopted lease, kept alive."""
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
