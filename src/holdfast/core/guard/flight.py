"""Single-flight: of the callers in a process that want one value, one sends a request and the
others wait.

The caller that asks is the *leader*. The answer to its request is given only to callers that were
waiting when the request was *sent*: a later caller can know of an invalidation that the answer
doesn't include. Later callers share the next request, which one of them sends. So no caller gets an
answer to a request that was sent before its call. While the leader only reads, a few later callers
read for themselves: to wait for the leader first would cost two round trips instead of one.

No lock is used. The outcome of a waiting caller (its *seat*) is decided by the first call of
`Seat.draw`: by the leader, or by the caller itself, if it wants to leave.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from ...errors import HoldfastError
from ..ports import Latch

T = TypeVar("T")


class Failure(NamedTuple):
    """An outcome that is an error; each caller raises a separate instance."""

    error: Callable[[], HoldfastError]


class Order(enum.Enum):
    """An instruction for a waiting caller, in place of an outcome."""

    LEAD = "the leader has gone: ask for all waiting callers"
    AGAIN = "the flight had ended before you came: start again"


class Seat(Generic[T]):
    """One caller that waits for the result of another caller."""

    __slots__ = ("_draw", "latch", "outcome")

    def __init__(self, latch: Latch) -> None:
        self.latch = latch
        self.outcome: T | Failure | Order | None = None
        #: Gives True once: to the party that decides the outcome of this seat.
        self._draw = iter((True,))

    def draw(self) -> bool:
        """Decide the outcome of this seat; return False if it was decided before. A caller that
        gets False finds the leader's ``outcome``."""
        return next(self._draw, False)

    def serve(self, outcome: T | Failure | Order) -> bool:
        """Give the outcome to the caller; return False if that caller has left. Only the leader
        serves."""
        self.outcome = outcome
        if not self.draw():
            return False
        self.latch.set()
        return True


class Flight(Generic[T]):
    """The callers that want one value now. The first caller leads; each other caller takes a
    seat."""

    __slots__ = ("_counts", "_seats", "beside", "computing", "over", "reads")

    def __init__(self) -> None:
        self._seats: list[Seat[T]] = []
        #: The number of callers in the flight when the last request was sent.
        self._counts = 0
        self.over = False
        #: ``reads``: True while the leader has sent a read, and nothing else. ``beside``: the
        #: number of callers that read at the same time.
        self.reads, self.beside = False, 0
        #: The thread or task that computes the value now, or None.
        self.computing: Hashable = None

    def sit(self, seat: Seat[T]) -> bool:
        """Take a seat; return False if the flight has ended, and the caller must start again."""
        self._seats.append(seat)
        return not (self.over and seat.draw())

    def mark(self) -> None:
        """Note that a request is being sent, whose answer is for all callers that are in the flight
        now."""
        self._counts = len(self._seats)

    def land(self, outcome: T | Failure) -> bool:
        """Give the outcome to all callers that were in the flight when the request was sent.

        A later caller then leads. Return False if there is none, and the flight has ended.
        """
        served = self._seats[: self._counts]
        del self._seats[: self._counts]  # in place, as other threads add seats at the same time
        self._counts = 0
        for seat in served:
            seat.serve(outcome)
        return self.hand_over()

    def hand_over(self) -> bool:
        """Let another caller lead; return False if there is none, and the flight has ended."""
        while self._seats:
            if self._seats.pop(0).serve(Order.LEAD):
                self._counts, self.computing = 0, None
                return True
        self.over = True
        # A caller that takes a seat at this moment sees `over`, or the loop below finds its seat.
        for seat in list(self._seats):
            seat.serve(Order.AGAIN)
        return False
