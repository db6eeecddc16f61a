"""Releases that failed: each is repeated until it no longer matters.

Any thread can add an undo, also from a finalizer or a signal handler; only the renewer removes one.
So a new undo is put into a deque, whose operations are atomic; only the renewer uses the heap.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..errors import ConfigError, HoldfastError
from .policy import UNDO_S, back_off
from .ports import Undo

if TYPE_CHECKING:
    from .context import Context

log = logging.getLogger("holdfast")

#: Maximum seconds for one try to carry out an undo, so that the renewer renews new holds in time.
LONGEST_S = 1.6
#: (when, tie-break, undo, until, number of failures)
_Entry = tuple[float, int, Undo, float, int]


def replaces(late: BaseException | None, ends: bool) -> bool:
    """Return True if ``late``, an error of an undo, replaces the exception on its way. Only a
    cancellation or Ctrl-C replaces it, unless the exception on its way is itself a cancellation or
    Ctrl-C (``ends``)."""
    if isinstance(late, GeneratorExit):  # the coroutine is being closed
        return True
    return not (late is None or ends or isinstance(late, Exception))


class Undos:
    """The outstanding undos, soonest first."""

    __slots__ = ("_due", "_new", "_tie")

    def __init__(self) -> None:
        self._new: deque[_Entry] = deque()
        self._due: list[_Entry] = []
        self._tie = itertools.count()

    def __len__(self) -> int:
        return len(self._new) + len(self._due)

    def __iter__(self) -> Iterator[Undo]:
        return iter([entry[2] for entry in [*self._due, *self._new.copy()]])

    def add(self, when: float, undo: Undo, until: float, failures: int = 0) -> None:
        """Plan an undo for the time ``when``; give it up at ``until``."""
        self._new.append((when, next(self._tie), undo, until, failures))

    def soonest(self) -> float:
        """Return the time at which the next undo is due; ``inf`` if there is none."""
        soonest = self._due[0][0] if self._due else math.inf
        return min(soonest, *(entry[0] for entry in self._new.copy()), math.inf)

    def next(self, now: float) -> tuple[Undo, float, int] | None:
        """Return the next due undo, the time at which to give it up, and the number of its
        failures; or None. The undo is removed only when it is done, because a close looks for undos
        here."""
        while self._new:
            heapq.heappush(self._due, self._new.popleft())
        if not self._due or self._due[0][0] > now:
            return None
        return self._due[0][2:]

    async def carry_out(self, ctx: Context, free: Callable[[], float]) -> None:
        """Carry out the undos that are due: at least one, and more until something else is due.

        An undo that fails is repeated with twice the time-out, because a server can be far away, or
        a connection must be made. ``free`` returns the seconds until something else is due.
        """
        while (taken := self.next(ctx.now())) is not None:
            undo, until, failures = taken
            within = min(UNDO_S * 2.0 ** min(failures, 12), free() / 2, LONGEST_S)
            try:
                await ctx.withdraw(undo, max(UNDO_S, within))
            except Exception as failure:
                now = ctx.now()
                if not isinstance(failure, HoldfastError):
                    log.exception("withdrawing from %r failed; trying again", undo.name)
                    # A ConfigError would come again and again until a user corrects its cause.
                if now < until and not isinstance(failure, ConfigError):
                    again = now + back_off(failures, ctx.runtime.jitter(), 1.0)
                    self.add(again, undo, until, failures + 1)
                else:
                    log.error("a claim on %r was left to expire: %s", undo.name, failure)
            heapq.heappop(self._due)  # not removed if cancelled: the next renewer repeats the undo
            if free() <= 0:
                return
