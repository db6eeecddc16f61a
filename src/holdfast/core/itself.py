"""Detection of a thread or task that waits for itself: such a wait would never end.

Looked for only when an acquire has waited for a while, so that taking a free name costs
no more than a note of where it was taken (see ``place.Spot``), and a hand-off nothing at all.

It is certain, and an error, where a ``with`` that gives the hold back is open around what waits:
it is found among the callers, and nothing continues there before the wait has ended. That isn't so
where a task waits inside of a ``with`` of another task or of the thread that runs its loop, where
a generator or a stack has entered, where the hold ends by itself or was handed to somebody else,
who may release it, and where a timer may end the wait. Then it is only told.
"""

from __future__ import annotations

import math
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import HoldfastError, NotSupported
from .model import Spec
from .place import Spot
from .plain import visible

if TYPE_CHECKING:
    from .context import Context
    from .hold import HoldBase
    from .lease import Lease

#: The store is asked whether it is so, but not for longer than this.
ASK_S = 1.0
#: A client with more leases than this isn't looked through, because each waiter would do that.
LEASES_MAX = 1000
#: The folder of our own code, which is no place that a caller knows.
_OURS = __file__.rpartition("core")[0]
#: A frame of such code has variables of its own.
_OPTIMIZED = 0x1
#: What an instruction of ``await`` has behind the call that made what is awaited.
_AWAITING = frozenset({"CACHE", "EXTENDED_ARG", "GET_AWAITABLE", "LOAD_CONST", "SEND"})


class Own(NamedTuple):
    """A hold that the thread or task that waits has itself."""

    hold: HoldBase
    #: The holds that it is one of, if it was taken together with others.
    several: Any
    #: Where it was taken.
    spot: Spot
    #: The frame whose ``with`` releases it, if what waits was called from inside of it, and it
    #: continues only after that.
    around: FrameType | None


async def refuse(ctx: Context, spec: Spec) -> None:
    """Raise if this claim, which waits without a time limit, waits for what is held around it."""
    own = find(ctx, spec)
    around = [one for one in own if one.around is not None and _endless(one)]
    if not around or ctx.runtime.hurried():
        return
    try:
        lines = await ctx.store.inspect(spec.name, ASK_S, exact=True)
    except HoldfastError:
        return
    if not lines:
        return
    there = {(one.owner, one.fence): one.weight for one in lines[0].holders}
    weights = [there.get((one.hold.owner, one.hold._lease.fence), 0) for one in around]
    what = told(own)
    del own, around  # because whoever keeps the error would have the holds
    if sum(weights) + spec.weight > lines[0].capacity:
        raise NotSupported(
            f"{spec.kind} {spec.name!r} would wait for itself for ever: {what}. Release it "
            "first, hand the hold on to what needs it, or give the wait an end (timeout=)"
        )


def words(ctx: Context, spec: Spec) -> str:
    """Says that the thread or task that waits for this name holds it itself; else nothing."""
    return told(find(ctx, spec))


def told(own: list[Own]) -> str:
    """The same of these holds."""
    if not own:
        return ""
    return "this very thread or task holds it, by the hold taken at " + " and at ".join(
        dict.fromkeys(_where(one) for one in own)
    )


def leases(ctx: Context, kind: str) -> list[Lease]:
    """What is alive in this process at the store of this context, of this kind."""
    return [
        lease
        for other in ctx.others()
        if other.keeper.pending() <= LEASES_MAX
        for lease in other.leases()
        if lease.kind == kind and lease.end is None and not lease.closing
    ]


def find(ctx: Context, spec: Spec) -> list[Own]:
    """What the current thread or task holds of this name, by whatever object or client."""
    flow: Any = ctx.runtime.flow()
    ours = set(flow) if isinstance(flow, tuple) else {flow}
    found = []
    for lease in leases(ctx, "hold"):
        hold = lease.hold_ref() if lease.hold_ref is not None else None
        if hold is None or lease.claim.spec.name != spec.name or hold.lost is not None:
            continue
        seen = _seen(hold)
        if seen is not None:
            spot, theirs = seen
            frame = _frame(spot)
            mine = not ours.isdisjoint(theirs)
            if mine or frame is not None:
                # A thread that waits holds up all that is on its stack; a task only what is its.
                around = frame if mine or not ctx.runtime.awaits else None
                several = spot.several() if spot.several is not None else None
                found.append(Own(hold, several, spot, around))
    return found


def _seen(hold: HoldBase) -> tuple[Spot, tuple[object, ...]] | None:
    """Where it was taken, and by which thread or task: what it noted, or its lock did."""
    lock = hold._lock() if hold._lock is not None else None
    for entry in lock._door[:] if lock is not None else ():
        if entry.hold is hold:
            flow: Any = entry.flow
            return entry.spot(), flow if isinstance(flow, tuple) else (flow,)
    at = getattr(hold, "_at", None)
    if at is None:
        return None
    spot = Spot(*at)
    return spot, (spot.whose() if spot.whose is not None else None,)


# -- is it certain? ------------------------------------------------------------------------------


def _endless(own: Own) -> bool:
    """Does it last until its ``with`` releases it?"""
    lease = own.hold._lease
    return lease.renewing and lease.stop_at == math.inf and not _handed_on(own)


def _handed_on(own: Own) -> bool:
    """Does anybody have it beside our own records and one variable of its ``with``?"""
    lock = own.hold._lock() if own.hold._lock is not None else None
    given = int(lock is not None and own.hold in lock._given)
    # `own`; the lock; and the entry, the several, or what the statement calls at its end.
    more = _references(own.hold) - 2 - given
    if own.several is None:
        return more - _named(own.around, own.hold) > 0
    return more > 0 or _references(own.several) - 2 - _named(own.around, own.several) > 0


def _references(one: object) -> int:
    """How many there are to it, those of this call left out."""
    return sys.getrefcount(one) - _OF_CALL


_OF_CALL = 0
_OF_CALL = _references(object())


def _named(frame: FrameType | None, one: object) -> int:
    """1 if a variable of this frame is this, and nobody else sees that variable."""
    if frame is None or not frame.f_code.co_flags & _OPTIMIZED:
        return 0
    names = set(frame.f_code.co_varnames).difference(frame.f_code.co_cellvars)
    values = frame.f_locals
    return int(any(values.get(name) is one for name in names))


def _frame(spot: Spot) -> FrameType | None:
    """The frame of this ``with`` statement, if we are called from inside of it."""
    if not spot.number or not _by_statement(spot):
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if id(frame) == spot.number and frame.f_code is spot.code:
            return frame
        frame = frame.f_back
    return None


def _by_statement(spot: Spot) -> bool:
    """Was it entered by a statement, which is left by itself, and not by ``__enter__()``? Else the
    frame may be over, and another one have its number."""
    from opcode import opname  # because this is rarely asked

    names = [opname[byte] for byte in spot.code.co_code[: spot.at + 1 : 2]]
    does = [name for name in names if name not in _AWAITING]
    return does[-1] in ("BEFORE_WITH", "BEFORE_ASYNC_WITH") or (
        does[-2:] == ["LOAD_SPECIAL", "CALL"]  # from Python 3.14 on
    )


def _where(own: Own) -> str:
    """File and line, in the code of whoever calls us."""
    code, at, frame = own.spot.code, own.spot.at, own.around
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):  # a decorator
        frame = frame.f_back
        if frame is not None:
            code, at = frame.f_code, frame.f_lasti
    lines = [line for start, end, line in code.co_lines() if start <= at < end]
    return f"{visible(code.co_filename)}:{lines[0] if lines else code.co_firstlineno}"
