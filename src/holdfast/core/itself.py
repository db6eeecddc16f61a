"""Detection of a thread or task that waits for itself: such a wait would never end.

The check runs only when an acquire has waited for a while. So acquiring a free name costs only a
note of the position in the code (see ``place.Spot``), and a hand-off costs nothing.

The case is certain, and an error, if the wait is inside the ``with`` that releases the hold: the
frame of that statement is among the callers, and can't continue before the wait has ended. The case
isn't certain, and is only reported, if

* a task waits inside a ``with`` of another task, or of the thread that runs its loop,
* a generator or an ``ExitStack`` entered the hold,
* the hold ends without a release, or another part of the program can release it,
* a timer may end the wait.
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

#: Maximum seconds for the request in which the store confirms the holder.
ASK_S = 1.0
#: A client with more leases than this isn't searched, because each waiter repeats the search.
LEASES_MAX = 1000
#: The folder of holdfast's code, which isn't a useful position for a caller.
_OURS = __file__.rpartition("core")[0]
#: The flag of code whose frame has separate local variables (a function, not a module).
_OPTIMIZED = 0x1
#: The instructions of ``await`` after the call that made the awaitable.
_AWAITING = frozenset({"CACHE", "EXTENDED_ARG", "GET_AWAITABLE", "LOAD_CONST", "SEND"})


class Own(NamedTuple):
    """A hold of the thread or task that waits."""

    hold: HoldBase
    #: The holds on several names (`MultiHoldBase`) that include this hold, or None.
    several: Any
    #: The position of the acquire.
    spot: Spot
    #: The frame whose ``with`` releases the hold, if the wait was called from inside this ``with``;
    #: else None. Such a frame can't continue before the wait ends.
    around: FrameType | None


async def refuse(ctx: Context, spec: Spec) -> None:
    """Raise if a claim without a time limit waits for a hold whose ``with`` is around the wait."""
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
    del own, around  # a stored error would keep these variables, and so the holds, alive
    if sum(weights) + spec.weight > lines[0].capacity:
        raise NotSupported(
            f"{spec.kind} {spec.name!r} would wait for itself forever: {what}. Release it first, "
            "pass the hold to the code that needs it, or limit the wait (timeout=)"
        )


def words(ctx: Context, spec: Spec) -> str:
    """Return a text if the current thread or task already holds this name; else an empty text."""
    return told(find(ctx, spec))


def told(own: list[Own]) -> str:
    """Return the text that names the positions of these holds."""
    if not own:
        return ""
    return "this very thread or task holds it, by the hold taken at " + " and at ".join(
        dict.fromkeys(_where(one) for one in own)
    )


def leases(ctx: Context, kind: str) -> list[Lease]:
    """Return the valid leases of this kind that this process has at the store of this client."""
    return [
        lease
        for other in ctx.others()
        if other.keeper.pending() <= LEASES_MAX
        for lease in other.leases()
        if lease.kind == kind and lease.end is None and not lease.closing
    ]


def find(ctx: Context, spec: Spec) -> list[Own]:
    """Return the holds of the current thread or task on this name, by any object or client."""
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
                # A waiting thread blocks all frames on its stack; a task blocks only its own.
                around = frame if mine or not ctx.runtime.awaits else None
                several = spot.several() if spot.several is not None else None
                found.append(Own(hold, several, spot, around))
    return found


def _seen(hold: HoldBase) -> tuple[Spot, tuple[object, ...]] | None:
    """Return the position of the acquire, and the thread or task; None if they were not noted."""
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
    """Return True if the hold lasts until the ``with`` of the hold releases it."""
    lease = own.hold._lease
    return lease.renewing and lease.stop_at == math.inf and not _handed_on(own)


def _handed_on(own: Own) -> bool:
    """Return True if other code may release the hold: the hold then has more references than those
    of holdfast and of one variable of its ``with``."""
    lock = own.hold._lock() if own.hold._lock is not None else None
    given = int(lock is not None and own.hold in lock._given)
    # Not counted: the references of `own`, of the lock (`given`), and of one object that the
    # statement uses at its end: its entry, the object for several names, or a bound method.
    more = _references(own.hold) - 2 - given
    if own.several is None:
        return more - _named(own.around, own.hold) > 0
    return more > 0 or _references(own.several) - 2 - _named(own.around, own.several) > 0


def _references(one: object) -> int:
    """Return the number of references to an object, without those of this call."""
    return sys.getrefcount(one) - _OF_CALL


_OF_CALL = 0
_OF_CALL = _references(object())


def _named(frame: FrameType | None, one: object) -> int:
    """Return 1 if this object is a local variable of the frame that no inner function uses."""
    if frame is None or not frame.f_code.co_flags & _OPTIMIZED:
        return 0
    names = set(frame.f_code.co_varnames).difference(frame.f_code.co_cellvars)
    values = frame.f_locals
    return int(any(values.get(name) is one for name in names))


def _frame(spot: Spot) -> FrameType | None:
    """Return the frame of this ``with`` statement, if this call comes from inside it."""
    if not spot.number or not _by_statement(spot):
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if id(frame) == spot.number and frame.f_code is spot.code:
            return frame
        frame = frame.f_back
    return None


def _by_statement(spot: Spot) -> bool:
    """Return True for an entry by ``with``, which always leaves; False for ``__enter__()``.

    After such a call the frame can have ended, and another frame can have its number.
    """
    from opcode import opname  # here, because this is rarely needed

    names = [opname[byte] for byte in spot.code.co_code[: spot.at + 1 : 2]]
    does = [name for name in names if name not in _AWAITING]
    return does[-1] in ("BEFORE_WITH", "BEFORE_ASYNC_WITH") or (
        does[-2:] == ["LOAD_SPECIAL", "CALL"]  # since Python 3.14
    )


def _where(own: Own) -> str:
    """Return file and line, in the code of the library's caller."""
    code, at, frame = own.spot.code, own.spot.at, own.around
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):  # a decorator
        frame = frame.f_back
        if frame is not None:
            code, at = frame.f_code, frame.f_lasti
    lines = [line for start, end, line in code.co_lines() if start <= at < end]
    return f"{visible(code.co_filename)}:{lines[0] if lines else code.co_firstlineno}"
