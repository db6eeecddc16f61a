"""Single flight: of the callers in this process who want one value, one asks and the rest wait.

What a request brought is given only to those who stood here when it was *sent*: whoever came later
may know of an invalidation that the answer doesn't. Those continue with the next request, which one
of them sends. So merging never makes an answer older than the caller's own question. While a value
is only being read, few of those who come too late for the answer read for themselves, as to wait
for it first would make two round trips of one.

No lock is held anywhere: a seat is served by whoever draws its ticket first, the leader or
the one who sits there and wants to leave.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from ...errors import HoldfastError
from ..ports import Latch

T = TypeVar("T")


class Failure(NamedTuple):
    """An outcome that is an error; each caller raises one of its own."""

    error: Callable[[], HoldfastError]


class Order(enum.Enum):
    """What one who waited is told in place of an outcome."""

    LEAD = "the one who asked has gone: ask yourself, for all who wait"
    AGAIN = "it was over before you came: begin anew"


class Seat(Generic[T]):
    """One caller who waits for what another brings."""

    __slots__ = ("_draw", "latch", "outcome")

    def __init__(self, latch: Latch) -> None:
        self.latch = latch
        self.outcome: T | Failure | Order | None = None
        #: Gives True once: to the party that decides what becomes of this seat.
        self._draw = iter((True,))

    def draw(self) -> bool:
        """Decide about this seat; False if that was done before: then ``outcome`` is there."""
        return next(self._draw, False)

    def serve(self, outcome: T | Failure | Order) -> bool:
        """Give this to the caller; False if it has left. Only the leader serves."""
        self.outcome = outcome
        if not self.draw():
            return False
        self.latch.set()
        return True


class Flight(Generic[T]):
    """Those who want one value now. Whoever makes it leads; the others take a seat."""

    __slots__ = ("_counts", "_seats", "beside", "computing", "over", "reads")

    def __init__(self) -> None:
        self._seats: list[Seat[T]] = []
        #: The number of callers here when the last request was sent.
        self._counts = 0
        self.over = False
        #: The one who leads has sent a read, and no more than that; so many read beside.
        self.reads, self.beside = False, 0
        #: The thread or task that computes it, while it does.
        self.computing: Hashable = None

    def sit(self, seat: Seat[T]) -> bool:
        """Wait in it; False if it has ended, and the caller begins again."""
        self._seats.append(seat)
        return not (self.over and seat.draw())

    def mark(self) -> None:
        """A request is being sent: its answer is for all who are here."""
        self._counts = len(self._seats)

    def land(self, outcome: T | Failure) -> bool:
        """Give it to all who were here when the request was sent, and the lead to one of those
        who came later; False if there is nobody left, and the flight has ended."""
        served = self._seats[: self._counts]
        del self._seats[: self._counts]  # in place, as others sit down meanwhile
        self._counts = 0
        for seat in served:
            seat.serve(outcome)
        return self.hand_over()

    def hand_over(self) -> bool:
        """The leader leaves: another one leads; False if there is nobody, and it has ended."""
        while self._seats:
            if self._seats.pop(0).serve(Order.LEAD):
                self._counts, self.computing = 0, None
                return True
        self.over = True
        # Whoever sat down since has seen that it has ended, or is found here.
        for seat in list(self._seats):
            seat.serve(Order.AGAIN)
        return False
