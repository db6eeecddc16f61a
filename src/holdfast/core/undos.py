"""Releases that failed: each is tried again until it no longer matters.

Any thread may add, also from a finalizer or a signal handler; the renewer alone takes out. So what
comes in waits in a deque, whose ends are moved by single steps, and only the renewer has the heap.
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

#: The renewer is given no longer for one of them, lest a hold that is taken meanwhile isn't
#: renewed.
LONGEST_S = 1.6
#: (when, tie-break, undo, until, how often it has failed)
_Entry = tuple[float, int, Undo, float, int]


def replaces(late: BaseException | None, ends: bool) -> bool:
    """Is what an undo met to be raised in place of the exception that is on its way? A cancellation
    and Ctrl-C are, unless that one is of their kind (``ends``); a failure is not."""
    if isinstance(late, GeneratorExit):  # the coroutine is being closed
        return True
    return not (late is None or ends or isinstance(late, Exception))


class Undos:
    """The undos that are outstanding, soonest first."""

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
        """Carry it out at ``when``; give up at ``until``."""
        self._new.append((when, next(self._tie), undo, until, failures))

    def soonest(self) -> float:
        """When the next one is due; ``inf`` if there is none."""
        soonest = self._due[0][0] if self._due else math.inf
        return min(soonest, *(entry[0] for entry in self._new.copy()), math.inf)

    def next(self, now: float) -> tuple[Undo, float, int] | None:
        """The next one that is due, with its end and its failures; None if none is. It is taken
        out when it is done, because a close looks for it here meanwhile."""
        while self._new:
            heapq.heappush(self._due, self._new.popleft())
        if not self._due or self._due[0][0] > now:
            return None
        return self._due[0][2:]

    async def carry_out(self, ctx: Context, free: Callable[[], float]) -> None:
        """Carry out the undos that are due: at least one, and more until something else is due.

        One that fails is tried again with twice the time, because a server may be far away, or a
        connection must be made. ``free`` gives the seconds that remain until something else is due.
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
                # A ConfigError would be answered again and again, until somebody fixes something.
                if now < until and not isinstance(failure, ConfigError):
                    again = now + back_off(failures, ctx.runtime.jitter(), 1.0)
                    self.add(again, undo, until, failures + 1)
                else:
                    log.error("a claim on %r was left to expire: %s", undo.name, failure)
            heapq.heappop(self._due)  # if the renewer is cancelled, its next start does it
            if free() <= 0:
                return
