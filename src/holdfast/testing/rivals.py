"""Rival clients that hold, wait or break, to test how code behaves under contention."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any

from ..aio import AsyncHold
from ..core.checks import shown
from ..core.hold import HoldBase
from ..core.lock import LockBase
from ..core.model import TTL_S_MAX, Claim, Held, Kind, Leave, Loss, Spec, Waiting
from ..core.multi import MultiHoldBase
from ..errors import ConfigError, NotHeld
from ..runtime.blocking import run_sync
from ..stores.memory.line import Lines
from .clock import SETTLE_S, TestClock

#: The owner of a rival's claims.
OWNER = "elsewhere:1:rival"


@dataclass(frozen=True)
class Rival:
    """Another client that holds a name or waits in its line until ``leave()``."""

    name: str
    #: The ticket of the rival's claim; it is the fence as soon as the rival holds the name.
    fence: int
    _id: str
    _clock: TestClock

    @property
    def holding(self) -> bool:
        """True while the rival holds the name; otherwise it waits, has left or has expired."""

        def look(lines: Lines, now: float) -> bool:
            line = lines.lines.get(self.name)
            row = line.held.get(self._id) if line is not None else None
            return row is not None and row.expires > now

        return self._clock.call(look)

    def leave(self) -> None:
        """Release the name, or leave its line of claims; the next waiter is granted."""
        leave = Leave(self.name, self._id, self.fence)
        _, pokes = self._clock.call(lambda lines, now: lines.leave(leave, now))
        for address, _, fence in pokes:
            address.poke(fence)


def contend(clock: TestClock, wanted: str | LockBase, seconds: float = TTL_S_MAX) -> Rival:
    """Make another client acquire this name or lock. On return the client holds it, or waits.

    ``seconds``: a holder vanishes after this time, as if it was killed; a waiter stays.
    Raises ``ConfigError`` if the name is in use with another kind or capacity.
    """
    if isinstance(wanted, LockBase):
        spec = wanted._spec._replace(ttl=seconds, owner=OWNER)
    elif isinstance(wanted, str):
        spec = Spec(wanted, Kind.LOCK, 1, 1, seconds, OWNER)
    else:
        raise ConfigError(f"contend() takes a name or a lock, not {shown(wanted)}")
    claim = Claim(os.urandom(16).hex(), spec)

    def join(lines: Lines, now: float) -> Any:
        answer, _ = lines.join(claim, True, now)
        if isinstance(answer, Waiting):  # no renewer renews it, so it needs a long lease
            lines.lines[spec.name].waiting[claim.id].expires = now + TTL_S_MAX
        return answer

    answer = clock.call(join)
    if isinstance(answer, Held):
        return Rival(spec.name, answer.fence, claim.id, clock)
    if isinstance(answer, Waiting):
        return Rival(spec.name, answer.ticket, claim.id, clock)
    raise ConfigError(f"a rival can't enter the line of {spec.name!r}: {answer}")


def lose(hold: Any, reason: Loss | str = Loss.BROKEN) -> None:
    """End a hold for this reason: the name becomes free, and the holder is notified.

    Everything happens as in a real loss. ``hold.lost`` is set immediately. Callbacks run on the
    renewer's thread before this function returns, or on its task as soon as that task runs. A task
    with ``cancel_on_lost`` is cancelled. The hold must come from a client of the memory store, or
    from a fixture. Raises ``NotHeld`` if the hold has ended already.
    """
    if isinstance(hold, MultiHoldBase):
        hold = hold._holds[0]
    if not isinstance(hold, HoldBase):
        raise ConfigError(f"lose() takes a hold, such as acquire() gives, not {shown(hold)}")
    lease, ctx = hold._lease, hold._ctx
    if hold.lost is not None or lease.end is not None:
        raise NotHeld(f"{hold!r} can't be lost: it is no longer held")
    run_sync(ctx.store.break_(hold.name, hold.fence, SETTLE_S))
    told = threading.Event()
    lease.callbacks.append(lambda hold, reason: told.set())  # the last one to be called
    lease.reason = Loss(reason)
    ctx.keeper.add_early(lease, ctx.now())
    if not isinstance(hold, AsyncHold):
        told.wait(SETTLE_S)
