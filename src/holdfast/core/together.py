"""Several names in one round trip: all of them in one step, if all are free.

The store grants all or none in one step, so no client holds one name while it waits for another,
and no dead-lock can arise from this. If any name is not free, the result is None, and the names are
acquired one after the other (``multi.py``). Only in that case do claims enter a line that has other
claims, so no waiter is overtaken.

A request without a reply can have granted all names, or can still do so. It is not repeated: for a
repeated request, its own claims would look like other holders. So all claims are withdrawn with
tombstones; the store then refuses a late copy of the request. Only after that are the names
acquired one by one, with new ids.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import StoreUnavailable
from . import claims, leaving
from .asking import LEAST_S, Asking
from .claims import Attempt
from .hold import HoldBase
from .lease import Lease, Terms
from .model import Claim, Held, Kind, Leave, Loss, State
from .policy import GRACE_S, REQUEST_S, REQUEST_S_MIN, UNDO_S, deadline
from .ports import DiskFailed
from .undos import replaces

if TYPE_CHECKING:
    from .context import Context
    from .lock import LockBase


async def acquire(
    ctx: Context, locks: Sequence[LockBase], timeout: float | None, begun: float
) -> list[HoldBase] | None:
    """Return holds on all names. None: no name is held, and they must be acquired one by one.

    ``timeout`` and ``begun``: see ``claims.acquire``. The holds are made here, so that at each
    moment either the holds or the ``except`` below end the claims.
    """
    if not _possible(ctx, locks):
        return None
    if ctx.orphans:
        ctx.drain_orphans()
    attempt = Attempt(ctx, locks[0]._spec, locks[0]._terms, timeout, begun)
    new_id = ctx.runtime.new_id
    wanted = [attempt.claim, *(Claim(new_id(), lock._spec) for lock in locks[1:])]
    leases: list[Lease] = []
    holds: list[HoldBase] = []
    ctx.under_way[attempt] = lambda: _leaves(wanted)
    try:
        ctx.require_open()
        held = await _join(attempt, wanted)
        if held is None:
            return None
        sent = attempt.asked
        ends = [_until(claim, one, sent) for claim, one in zip(wanted, held, strict=True)]
        if ctx.now() >= min(ends):
            await _clear(
                attempt, wanted, None
            )  # too late: leases made now would be reported as lost
            return None
        for lock, claim, one in zip(locks, wanted, held, strict=True):
            lease = _lease(ctx, claim, one, sent, lock._terms)
            leases.append(lease)
            holds.append(lock._make(lease))
        if ctx.now() < min([lease.deadline for lease in leases]) and not ctx.closed:
            ctx.under_way.pop(attempt, None)  # an interrupt after the `return` would leave them
            return holds
        _forgo(ctx, leases, holds)
        ctx.require_open()
        await _clear(attempt, wanted, None)
        return None
    except GeneratorExit:  # the coroutine is being closed: nothing may be awaited
        for leave in _leaves(wanted):
            ctx.keeper.later(leave, ctx.now() + leave.ttl)
        _forgo(ctx, leases, holds)
        raise
    except BaseException:
        try:
            _forgo(ctx, leases, holds)
        finally:
            await _undo(ctx, _leaves(wanted), attempt.limit + GRACE_S)
        raise
    finally:
        if attempt in ctx.under_way:
            ctx.under_way.pop(attempt, None)


def _possible(ctx: Context, locks: Sequence[LockBase]) -> bool:
    """Return True if each lock needs a claim. A lock that the caller has entered needs none: the
    client counts the reentry."""
    if ctx.closed:
        ctx.require_open()
    if not 1 < len(locks) <= ctx.store.batch_max:
        return False
    for lock in locks:
        spec = lock._spec
        if spec.owner is not ctx.owner:  # this is the child of a fork
            spec = lock._spec = spec._replace(owner=ctx.owner)
        counted = lock._reentrant or spec.kind is Kind.RWLOCK
        if counted and ctx.flows.find(spec) is not None:
            return False
    return True


async def _join(attempt: Attempt, wanted: Sequence[Claim]) -> list[Held] | None:
    """Send the request once. If no reply comes, withdraw the claims of the request before the
    return."""
    within = min(REQUEST_S, max(attempt.limit - attempt.sends(), REQUEST_S_MIN))
    try:
        return await attempt.ctx.store.join_free(wanted, within)
    except StoreUnavailable as failure:
        await _clear(attempt, wanted, failure)
        return None


def _until(claim: Claim, held: Held, sent: float) -> float:
    """Return the deadline by the store's reply; the lease counts as no longer than the ttl, as in
    `Attempt.grant`."""
    return deadline(sent, min(held.expires_in, claim.spec.ttl))


def _lease(ctx: Context, claim: Claim, held: Held, sent: float, terms: Terms) -> Lease:
    until = min(_until(claim, held, sent), sent + terms.max_hold)
    lease = Lease(claim, held.fence, until, sent, terms, suspect=False)
    if terms.min_hold:
        lease.min_until = ctx.now() + terms.min_hold
    if terms.auto_renew:
        ctx.keeper.add(lease, sent + lease.every)
    return lease


def _leaves(wanted: Sequence[Claim]) -> list[Leave]:
    """Return the leaves for the claims of a request that can still be under way."""
    return [Leave(one.spec.name, one.id, 0, suspect=True, ttl=one.spec.ttl) for one in wanted]


async def _clear(
    attempt: Attempt, wanted: Sequence[Claim], failure: StoreUnavailable | None
) -> None:
    """Withdraw all claims; return when the store has confirmed each. ``failure``: the last failure.

    The caller makes no new claim before that, because it would wait for one of these claims.
    """
    ctx, leaves = attempt.ctx, _leaves(wanted)
    while True:
        if failure is not None:
            await attempt._silence(failure)  # raises when there is no time left
        within = min(REQUEST_S, max(attempt.limit - attempt.sends(), REQUEST_S_MIN))
        answers = await _ask(ctx, leaves, within)
        wrong = [one for one in answers if isinstance(one, Exception)]
        if not wrong:
            return
        other = next((one for one in wrong if not isinstance(one, StoreUnavailable)), None)
        if other is not None:
            raise other
        failure = next(one for one in wrong if isinstance(one, StoreUnavailable))
        pairs = zip(leaves, answers, strict=True)
        leaves = [leave for leave, answer in pairs if isinstance(answer, Exception)]


def _forgo(ctx: Context, leases: list[Lease], holds: list[HoldBase]) -> None:
    """Discard the leases and holds of the grants; the caller withdraws the claims."""
    for at, lease in enumerate(leases):
        claims._forgo(ctx, lease, holds[at] if at < len(holds) else None)


async def release(ctx: Context, holds: Sequence[HoldBase], levels: Sequence[int]) -> bool:
    """Release all holds in one round trip; return True if none of them had been lost.

    The first failure is raised after all releases were tried. ``levels``: the entry count of each
    hold when it was acquired. An interrupt doesn't prevent the remaining releases.
    """
    going: list[tuple[HoldBase, Leave]] = []
    failures: list[Exception] = []
    kept = True
    try:
        for hold in reversed(holds):
            try:
                leave = _closing(ctx, hold)
            except Exception as problem:
                failures.append(problem)
                continue
            if leave is not None:
                going.append((hold, leave))
            elif hold._lease.end is not None:
                kept = kept and hold._lease.reason is None
        released = [hold for hold, _ in going]
        going = await _give_back(ctx, going, failures)
        kept = kept and all(hold._lease.reason is None for hold in released)
    except Exception:
        raise
    except BaseException as interrupt:
        try:
            leaves = [leave for hold, leave in going if hold._lease.end is None]
            if leaves and not isinstance(interrupt, GeneratorExit):  # there nothing may be awaited
                await _undo(ctx, leaves)
        finally:
            for hold, level in zip(holds, levels, strict=True):
                hold._cut(level)
        raise
    for hold, leave in going:
        ctx.keeper.later(leave, hold._lease.deadline + leave.ttl)
    if failures:
        raise failures[0]
    return kept


def _closing(ctx: Context, hold: HoldBase) -> Leave | None:
    """Return the request that releases this hold, or None if no request is needed."""
    if hold._flow is not None and not ctx.flows.let_go(hold):
        return None
    lease = hold._lease
    if lease.end is None:
        if hold.lost is not Loss.FORKED:
            leave = hold._leave_of(lease)
            lease.sent = leave
            ctx.under_way[lease] = lease.again
            lease.closing = True  # before anything is sent, so that no false loss is reported
            lease.leaving += 1
            ctx.keeper.drop(lease)
            return leave
        lease.closing, lease.end = True, State.LOST  # it belongs to the parent process
    hold._step_back()
    return None


async def _give_back(
    ctx: Context, going: list[tuple[HoldBase, Leave]], failures: list[Exception]
) -> list[tuple[HoldBase, Leave]]:
    """Send each leave until it is answered; return the pairs whose leave got no answer in time."""
    now = ctx.now()
    latest = max([hold._lease.deadline for hold, _ in going], default=now)
    until = min(max(latest, now + LEAST_S), now + REQUEST_S)
    asking, missing = Asking(ctx), []
    while going:
        within = max(until - asking.sends(), LEAST_S)
        answers = await _ask(ctx, [leave for _, leave in going], within)
        left = []
        for one, answer in zip(going, answers, strict=True):
            if isinstance(answer, StoreUnavailable):
                left.append((one, answer))
            elif isinstance(answer, Exception):
                failures.append(answer)
                leaving.failed(ctx, one[0]._lease, answer)
            elif not _given_back(ctx, one[0], answer, asking.suspect):
                missing.append(one[0])
        going = [one for one, _ in left]
        if not left:
            break
        failure = next((one for _, one in left if isinstance(one, DiskFailed)), left[0][1])
        asking.unanswered(failure)
        pause = None if ctx.closed else asking.pause(failure, until)
        if pause is None:
            failures.append(failure)
            for hold, _ in going:
                leaving.failed(ctx, hold._lease, failure)
            break
        await ctx.runtime.sleep(pause)
    for hold in missing:
        await leaving.others(ctx, hold._lease, until)
        hold._gave_back(hold._lease, False)
        hold._step_back()
    return going


def _given_back(ctx: Context, hold: HoldBase, there: bool, again: bool) -> bool:
    """Note the answer to a leave. Return False if another release is under way: its answer decides.
    If a repeated leave finds no claim before our deadline, the first one released it, and its reply
    was lost."""
    lease = hold._lease
    lease.leaving -= 1
    there = there or (again and ctx.now() < lease.deadline)
    if not there and lease.leaving:
        return False
    hold._gave_back(lease, there)
    hold._step_back()
    return True


async def _ask(ctx: Context, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
    """Send each leave once; return a `StoreUnavailable` in the place of a missing reply."""
    answers: list[bool | Exception] = []
    most = ctx.store.batch_max
    for start in range(0, len(leaves), most):
        part = leaves[start : start + most]
        try:
            answers += await ctx.store.leave_all(part, within)
        except StoreUnavailable as failure:
            answers += [failure] * len(part)
    return answers


async def _undo(ctx: Context, leaves: Sequence[Leave], until: float = float("inf")) -> None:
    """Withdraw abandoned claims, as ``Context.undo`` does for one."""
    ends = not isinstance(sys.exception(), Exception)
    within = max(REQUEST_S_MIN, min(UNDO_S, until - ctx.now()))
    left = list(leaves)
    late: BaseException | None = None
    try:
        answers = await ctx.runtime.finish(_ask(ctx, leaves, within))
        pairs = zip(leaves, answers, strict=True)
        left = [leave for leave, answer in pairs if isinstance(answer, Exception)]
    except BaseException as failure:  # the renewer carries out the rest
        late = failure
    for leave in left:
        ctx.keeper.later(leave, ctx.now() + leave.ttl)
    if late is not None and replaces(late, ends):
        raise late
