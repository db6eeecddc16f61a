"""Single-flight: of the callers in a process that want one value, one asks and the rest wait.

The answer to a request is given only to callers that were waiting when it was *sent*: a later
caller may know of an invalidation that the answer doesn't include. Later callers share the next
request, which one of them sends. So merging never makes an answer older than the caller's own
question. While the leader only reads, a few of these later callers read for themselves, because
waiting for the leader first would make two round trips of one.

No lock is held anywhere: a seat is decided by the first party that draws its ticket. This is the
leader, or the caller in the seat, if it wants to leave.
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
    """One caller that waits for the result of another."""

    __slots__ = ("_draw", "latch", "outcome")

    def __init__(self, latch: Latch) -> None:
        self.latch = latch
        self.outcome: T | Failure | Order | None = None
        #: Gives True once: to the party that decides the outcome of this seat.
        self._draw = iter((True,))

    def draw(self) -> bool:
        """Decide this seat; False if it was decided before: then ``outcome`` is set."""
        return next(self._draw, False)

    def serve(self, outcome: T | Failure | Order) -> bool:
        """Give the outcome to the caller; False if it has left. Only the leader serves."""
        self.outcome = outcome
        if not self.draw():
            return False
        self.latch.set()
        return True


class Flight(Generic[T]):
    """The callers that want one value now. The one that starts it leads; the others take a seat."""

    __slots__ = ("_counts", "_seats", "beside", "computing", "over", "reads")

    def __init__(self) -> None:
        self._seats: list[Seat[T]] = []
        #: The number of callers here when the last request was sent.
        self._counts = 0
        self.over = False
        #: Has the leader sent a read, and nothing else? The number of callers that also read.
        self.reads, self.beside = False, 0
        #: The thread or task that computes the value, while it does.
        self.computing: Hashable = None

    def sit(self, seat: Seat[T]) -> bool:
        """Wait in a seat; False if the flight has ended, and the caller must start again."""
        self._seats.append(seat)
        return not (self.over and seat.draw())

    def mark(self) -> None:
        """A request is being sent: its answer is for all callers that are here now."""
        self._counts = len(self._seats)

    def land(self, outcome: T | Failure) -> bool:
        """Give the outcome to all that were here when the request was sent; a later one then leads.

        False if no caller is left, and the flight has ended.
        """
        served = self._seats[: self._counts]
        del self._seats[: self._counts]  # in place, as other threads add seats meanwhile
        self._counts = 0
        for seat in served:
            seat.serve(outcome)
        return self.hand_over()

    def hand_over(self) -> bool:
        """Let another caller lead; False if there is none, and the flight has ended."""
        while self._seats:
            if self._seats.pop(0).serve(Order.LEAD):
                self._counts, self.computing = 0, None
                return True
        self.over = True
        # A caller that took a seat since then has seen the end of the flight, or is found here.
        for seat in list(self._seats):
            seat.serve(Order.AGAIN)
        return False
