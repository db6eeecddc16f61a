"""A hold that nobody renews, between its detaching and its adoption: what `detach`, `adopt` and the
commands that take a token have in common.

Such a hold belongs to no process and ends with its lease. Its token proves that it is ours, by the
claim's secret id; the store tells its end, by the store's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigError, NotHeld, NotSupported
from . import checks, token
from .model import Claim, ClaimRecord, Gone, Held, Keep, Leave, Loss, Standing, State
from .plain import visible
from .policy import REQUEST_S

if TYPE_CHECKING:
    from .context import Context
    from .hold import HoldBase
    from .ports import Store


def require(store: Store) -> None:
    """``NotSupported`` where a hold belongs to the process that took it."""
    if not store.capabilities.detach:
        raise NotSupported(
            f"{store.label} can't detach or adopt a hold: it belongs to the process that took it, "
            "and ends with it. Keep that process alive: put the steps into one script, and call it "
            "with `holdfast run`; or use a store that has leases (sqlite, redis, postgresql, mysql)"
        )


def length(store: Store, ttl: object) -> float:
    """A lease that lasts without renewals, in seconds; ``ConfigError`` if the store has none."""
    wanted = checks.ttl(ttl)
    if wanted > store.lease_max:
        raise ConfigError(
            f"{store.label} gives no lease of more than {store.lease_max:g} s, and nobody renews a "
            f"detached hold: a ttl of {wanted:g} s can't be had. Take a shorter one"
        )
    return wanted


async def detach(hold: HoldBase, ttl: object) -> str:
    """Untie a hold from its process, for its ttl or another length from now on: its token."""
    hold.check()
    lease, ctx = hold._lease, hold._ctx
    require(ctx.store)
    if hold._strict or hold._count > 1:
        raise NotSupported(f"a reentrant hold on {hold.name!r} belongs to its thread or task")
    whole = lease.ttl if ttl is None else length(ctx.store, ttl)
    ctx.keeper.drop(lease)  # or a renewal that comes after it would tie the claim to us again
    try:
        wanted = lease.length(whole, ctx.now())
        await hold._keep(Keep(lease.claim, lease.fence, wanted, detach=True))
    except BaseException:
        if lease.end is None and (lease.renewing or lease.watched):  # still ours
            ctx.keeper.add_early(lease, ctx.now())
        raise
    hold._over(State.DETACHED)
    ctx.flows.forget(hold)
    hold._step_back()
    now = ctx.now()
    least, longest = max(0.0, lease.min_until - now), max(0.0, lease.stop_at - now)
    left = token.Left(least if lease.min_until else 0.0, longest, lease.renewing)
    spec = lease.claim.spec._replace(ttl=whole, weight=lease.weight)
    claim = lease.claim._replace(spec=spec)
    return token.write(token.Passed(ctx.store.label, claim, lease.fence, left))


async def ask(ctx: Context, keep: Keep, until: float) -> tuple[Standing, float, bool]:
    """Ask until it is answered: the standing, when that request was sent, was it repeated."""
    sent = ctx.now()

    async def once(within: float) -> Standing:
        nonlocal sent
        sent = ctx.now()
        answer = (await ctx.store.keep([keep], within))[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    answer, retried = await ctx.insist(once, until)
    return answer, sent, retried


async def renew(ctx: Context, passed: token.Passed, ttl: float, until: float) -> float:
    """Have a detached hold last at least ``ttl`` seconds from now; the seconds that it may be
    believed. ``NotHeld`` if it is over, ``ConfigError`` if the token isn't true.

    A fence that is too great would make each resource that sees it refuse all later holders. To
    keep a detached claim detached changes nothing of it but the end of its lease, so a refusal
    leaves the true token as good as it was.
    """
    claim, fence = passed.claim, passed.fence
    answer, sent, _ = await ask(ctx, Keep(claim, fence, ttl, detach=True), until)
    if not isinstance(answer, Held):
        raise gone(ctx, passed, answer)
    if answer.fence != fence:
        raise ConfigError(
            f"this token was altered: it says that its hold on {claim.spec.name!r} has the "
            f"fence {fence}, but the store says {answer.fence}. Pass on what hold.detach() "
            "returned, as it is"
        )
    return answer.expires_in - (ctx.now() - sent)


async def find(ctx: Context, passed: token.Passed) -> ClaimRecord:
    """A detached hold as people see it; ``NotHeld`` if it is over."""
    claim, fence = passed.claim, passed.fence
    spec = claim.spec
    lines = await ctx.store.inspect(spec.name, REQUEST_S, exact=True)
    seen = [one for one in (lines[0].holders if lines else ()) if one.fence == fence]
    if seen and seen[0].kept:
        raise NotHeld(f"{what(claim, fence)} is over: released")
    if seen and seen[0].owner != spec.owner:
        raise NotHeld(f"{what(claim, fence)} is over: adopted by {visible(seen[0].owner)}")
    return seen[0] if seen else await _missing(ctx, passed)


async def release(ctx: Context, passed: token.Passed) -> None:
    """Give a detached hold back; ``NotHeld`` if it is over."""
    claim, fence = passed.claim, passed.fence
    spec, left = claim.spec, passed.left
    leave = Leave(spec.name, claim.id, fence, left.least, False, spec.ttl)
    there, again = await ctx.insist(
        lambda within: ctx.store.leave(leave, within), ctx.now() + REQUEST_S
    )
    if not there and not again:  # of a request that was repeated the first may have done it
        await _missing(ctx, passed)


async def _missing(ctx: Context, passed: token.Passed) -> ClaimRecord:
    """The store doesn't show it: raise why. It may have been looked at amid a change of it, so the
    store is asked for the claim itself."""
    spec = passed.claim.spec
    left = await renew(ctx, passed, spec.ttl, ctx.now() + REQUEST_S)
    return ClaimRecord(spec.owner, passed.fence, True, spec.weight, -1.0, left, 0, spec.meta)


def note(owner: str) -> str:
    """What stands beside a claim that a command has detached. It names the owner, so that it is
    true no more once somebody has adopted the claim, and renews it."""
    return f"detached by {owner}: nobody renews it"


def detached(claim: ClaimRecord) -> bool:
    """Does nobody renew this claim, because a command has detached it?"""
    return claim.held and not claim.kept and claim.meta == note(claim.owner)


def what(claim: Claim, fence: int) -> str:
    """A detached hold, in an error."""
    return f"the detached hold on {claim.spec.name!r} (fence {fence})"


def gone(ctx: Context, passed: token.Passed, answer: Standing) -> NotHeld | ConfigError:
    """The error of a token whose hold is over, or which is of another store."""
    reason = answer.reason if isinstance(answer, Gone) else Loss.EXPIRED
    words = what(passed.claim, passed.fence)
    if reason is Loss.EXPIRED and passed.store != ctx.store.label:
        return ConfigError(
            f"{words} isn't in {ctx.store.label}: its token is of {passed.store}. Name that store "
            "(--url, $HOLDFAST_URL); if both are the same one, the hold is over"
        )
    if reason is Loss.EXPIRED:
        return NotHeld(f"{words} is over: it has expired, or was released or adopted")
    return NotHeld(f"{words} is over: {reason}")
