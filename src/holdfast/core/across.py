"""The common part of `detach`, `adopt` and the commands that take a token: a detached hold.

No process owns or renews a detached hold; it ends with its lease, by the store's clock. Its token
contains the claim's secret id, which proves that the bearer of the token may use the hold.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..errors import ConfigError, HoldfastError, NotHeld, NotSupported
from . import checks, token
from .asking import Asking
from .model import (
    DETACHED,
    OWNER_BYTES_MAX,
    TTL_S_MIN,
    Change,
    Claim,
    ClaimRecord,
    Gone,
    Held,
    Leave,
    Loss,
    Standing,
    State,
)
from .plain import visible
from .policy import REQUEST_S

if TYPE_CHECKING:
    from .context import Context
    from .hold import HoldBase
    from .ports import Store

#: Maximum seconds between an inspect and the next request; see `find`.
LESS_S = 2.0


def require(store: Store) -> None:
    """Raise ``NotSupported`` if holds of this store end with the process that acquired them."""
    if not store.capabilities.detach:
        raise NotSupported(
            f"{store.label} can't detach or adopt a hold: it belongs to the process that took it, "
            "and ends with it. Keep that process alive: put the steps into one script, and call it "
            "with `holdfast run`; or use a store that has leases (sqlite, redis, postgresql, mysql)"
        )


def length(store: Store, ttl: object) -> float:
    """Return this ttl as seconds; ``ConfigError`` if the store gives no lease of that length."""
    wanted = checks.ttl(ttl)
    if wanted > store.lease_max:
        raise ConfigError(
            f"{store.label} gives no lease of more than {store.lease_max:g} s, and a detached hold "
            f"is not renewed: a ttl of {wanted:g} s is not possible. Choose a shorter one"
        )
    return wanted


async def detach(hold: HoldBase, ttl: object) -> str:
    """Detach a hold from its process, for ``ttl`` seconds (None: its own ttl); return its token."""
    hold.check()
    lease, ctx = hold._lease, hold._ctx
    require(ctx.store)
    if hold._strict or hold._count > 1:
        raise NotSupported(f"a reentrant hold on {hold.name!r} belongs to its thread or task")
    whole = lease.ttl if ttl is None else length(ctx.store, ttl)
    ctx.keeper.drop(lease)  # a later renewal would tie the claim to this process again
    owner = lease.claim.spec.owner
    claim = lease.claim._replace(spec=lease.claim.spec._replace(owner=marked(owner)))
    try:
        wanted = lease.length(whole, ctx.now())
        lease.longest_asked = max(lease.longest_asked, wanted)
        await hold._renew(Change(claim, lease.fence, wanted, claim.id, detach=True))
    except BaseException:
        if lease.end is None and (lease.renewing or lease.watched):  # the hold is still valid here
            ctx.keeper.add_early(lease, ctx.now())
        raise
    hold._over(State.DETACHED)
    ctx.flows.forget(hold)
    hold._step_back()
    now = ctx.now()
    least, longest = max(0.0, lease.min_until - now), max(0.0, lease.stop_at - now)
    left = token.Left(least if lease.min_until else 0.0, longest, lease.renewing)
    claim = claim._replace(spec=claim.spec._replace(ttl=whole, weight=lease.weight))
    return token.write(token.Passed(ctx.store.label, claim, lease.fence, left))


async def ask(ctx: Context, change: Change, until: float) -> tuple[Standing, float, bool]:
    """Repeat a request until it is answered. Return the standing, the time of the last sending, and
    True if the request was repeated."""
    asking = Asking(ctx)
    answer = await asking.insist(lambda within: ctx.store.change(change, within), until)
    return answer, asking.heard, asking.suspect


async def renew(ctx: Context, passed: token.Passed, ttl: float, until: float) -> float:
    """Renew a detached hold for at least ``ttl`` seconds; return the seconds that it then lasts.

    ``NotHeld`` if the hold has ended, ``ConfigError`` if the token was altered: a fence that is too
    great would make each resource that sees it refuse all later holders. The claim stays detached,
    and only the end of its lease changes. So after a refusal the unaltered token still works.
    """
    claim, fence = passed.claim, passed.fence
    answer, sent, _ = await ask(ctx, Change(claim, fence, ttl, detach=True), until)
    if not isinstance(answer, Held):
        raise await gone(ctx, passed, answer)
    if answer.fence != fence:
        raise ConfigError(
            f"this token was altered: its hold on {claim.spec.name!r} has the "
            f"fence {fence}, but the store has {answer.fence}. Pass on what hold.detach() "
            "returned, unchanged"
        )
    return answer.expires_in - (ctx.now() - sent)


async def find(ctx: Context, passed: token.Passed) -> ClaimRecord:
    """Return a detached hold for display; ``NotHeld`` if it has ended.

    An inspect doesn't prove the token's secret. So `find` also renews the hold, for less time than
    is left, which changes nothing. If the inspect finds no hold, `find` renews for the whole ttl,
    because the hold can be in the middle of a change.
    """
    spec = passed.claim.spec
    seen = await _look(ctx, passed)
    length = max(TTL_S_MIN, seen.expires_in - LESS_S) if seen else spec.ttl
    left = await renew(ctx, passed, length, ctx.now() + REQUEST_S)
    return seen or ClaimRecord(spec.owner, passed.fence, True, spec.weight, -1.0, left, 0)


async def release(ctx: Context, passed: token.Passed) -> None:
    """Release a detached hold; ``NotHeld`` if it has ended."""
    spec, left, until = passed.claim.spec, passed.left, ctx.now() + REQUEST_S
    # If the hold has ended, this raises before the leave, whose tombstone would record a release.
    await renew(ctx, passed, TTL_S_MIN, until)
    leave = Leave(spec.name, passed.claim.id, passed.fence, left.least, True, spec.ttl)
    asking = Asking(ctx)
    there = await asking.insist(lambda within: ctx.store.leave(leave, within), until)
    if not (there or asking.suspect):  # if the leave was repeated, the first one may have released
        raise await gone(ctx, passed, Gone(Loss.EXPIRED))


async def _look(ctx: Context, passed: token.Passed) -> ClaimRecord | None:
    """Return the hold that has this token's fence, or None."""
    lines = await ctx.store.inspect(passed.claim.spec.name, REQUEST_S, exact=True)
    found = [one for one in (lines[0].holders if lines else ()) if one.fence == passed.fence]
    return found[0] if found else None


def marked(owner: str) -> str:
    """Return the owner of a detached hold, as shown to others."""
    room = OWNER_BYTES_MAX - len(DETACHED)
    return owner.encode()[:room].decode(errors="ignore") + DETACHED


def what(claim: Claim, fence: int) -> str:
    """Return the name of a detached hold for an error."""
    return f"the detached hold on {claim.spec.name!r} (fence {fence})"


async def gone(ctx: Context, passed: token.Passed, answer: Standing) -> NotHeld | ConfigError:
    """Return the error for a token whose hold has ended, or is in another store."""
    reason = answer.reason if isinstance(answer, Gone) else Loss.EXPIRED
    words = what(passed.claim, passed.fence)
    if reason is not Loss.EXPIRED:
        return NotHeld(f"{words} has ended: {reason}")
    seen = None
    with contextlib.suppress(HoldfastError):  # then nothing more is known
        seen = await _look(ctx, passed)
    if seen is not None and not seen.kept:
        return NotHeld(f"{words} has ended: adopted by {visible(seen.who)}")
    if seen is not None:
        return NotHeld(f"{words} has ended: {Loss.RELEASED}")
    if passed.store != ctx.store.label:
        return ConfigError(
            f"{words} isn't in {ctx.store.label}: its token is of {passed.store}. Name that store "
            "(--url, $HOLDFAST_URL); if both are the same one, the hold has ended"
        )
    return NotHeld(f"{words} has ended: it has expired, or its adopter has ended it")
