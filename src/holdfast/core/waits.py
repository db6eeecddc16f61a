"""Log lines of a waiter: one at its start, one after a long wait."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from ..errors import HoldfastError
from . import itself
from .model import Waiting
from .plain import visible

if TYPE_CHECKING:
    from .claims import Attempt
    from .context import Context

log = logging.getLogger("holdfast")

#: After this many seconds of waiting, a check starts: does the thread or task wait for itself?
SOON_S = 1.0
#: A wait of this many seconds is logged.
LONG_S = 10.0
#: The time-out of the request that finds the holder for the log line, in seconds.
WHO_S = 0.1
#: Minimum seconds between two requests for a holder, counted over all waiters of one client.
LOOK_EVERY_S = 1.0


def begin(attempt: Attempt, waiting: Waiting) -> float:
    """Log that a claim waits; return when to log again."""
    if log.isEnabledFor(logging.DEBUG):
        log.debug("waiting for %r%s", attempt.spec.name, _place(waiting))
    return attempt.begun + min(SOON_S, LONG_S)


async def tell(attempt: Attempt, waiting: Waiting) -> float:
    """Log that a claim has waited for long; return when to log again. Raise if it waits for
    itself."""
    ctx, name, begun = attempt.ctx, attempt.spec.name, attempt.begun
    if attempt.tell_at < begun + LONG_S:
        if attempt.end == math.inf:
            await itself.refuse(ctx, attempt.spec)
        own = itself.words(ctx, attempt.spec)
        if own:
            log.warning("waiting for %r for %.1f s: %s", name, ctx.now() - begun, own)
        return begun + LONG_S
    now = ctx.now()
    if log.isEnabledFor(logging.INFO):
        who = await _holder(ctx, name, now)
        log.info("still waiting for %r after %.1f s%s%s", name, now - begun, _place(waiting), who)
    return math.inf


def _place(waiting: Waiting) -> str:
    return f", number {waiting.position} in line" if waiting.position > 0 else ""


async def _holder(ctx: Context, name: str, now: float) -> str:
    if now < ctx.looked + LOOK_EVERY_S:
        return ""
    ctx.looked = now
    try:
        lines = await ctx.store.inspect(name, WHO_S, exact=True)
    except HoldfastError:
        return ""
    if not lines or not lines[0].holders:
        return ""
    first = lines[0].holders[0]
    since = f" for {first.age:.1f} s" if first.age >= 0 else ""
    return f"; held by {visible(first.owner)}{since}{_fence(ctx, first.fence)}"


def _fence(ctx: Context, fence: int) -> str:
    return f" (fence {fence})" if ctx.store.capabilities.fences else ""
