"""One request and its repetitions: when they were sent, and whether one of them got no answer.

Every verb is idempotent by an id, so a request without an answer may be sent again. Each loop that
does so is an `Asking`, or uses one. So only this file decides from when a lease can have run,
whether a copy of the request can still arrive, and how long to pause.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ..errors import StoreUnavailable
from .policy import REQUEST_S, back_off
from .ports import DiskFailed, Unreached

if TYPE_CHECKING:
    from .context import Context

T = TypeVar("T")

#: Minimum time-out in seconds of a request that `Asking.insist` sends.
LEAST_S = 0.05


class Asking:
    """The copies of one request. Most requests are answered at once, so the fields are class
    defaults."""

    #: The times at which the last copy, and the last copy with an answer, were sent.
    asked = heard = 0.0
    #: The earliest moment at which a copy can have been carried out; None: no copy can. It moves
    #: only if an answer shows that no copy without an answer has been carried out.
    first: float | None = None
    #: True if a copy got no answer: it may have been carried out, or may still arrive.
    suspect = False
    #: True if such a copy can have reached the store.
    reached = False
    #: The number of failures since the last answer.
    failures = 0

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def forget(self) -> None:
        """Forget the copies: the next request has another id."""
        self.first, self.suspect = None, False

    def sends(self) -> float:
        """Note that a copy is sent now; return the time."""
        self.asked = now = self.ctx.now()
        if self.first is None:
            self.first = now
        return now

    def answered(self, nothing: bool = False) -> None:
        """Note the answer to the last copy. ``nothing``: it shows that no copy was carried out
        before it was sent. An earlier copy that is still under way can be carried out later."""
        self.heard, self.failures = self.asked, 0
        if nothing:
            self.first = self.asked if self.suspect else None

    def unanswered(self, failure: StoreUnavailable) -> None:
        """Note that the last copy got no answer."""
        self.suspect = True
        self.reached = self.reached or not isinstance(failure, Unreached)

    def pause(self, failure: StoreUnavailable, until: float) -> float | None:
        """Return the pause before the next copy. None: no copy could be sent before ``until``, or
        the store's disk failed."""
        if isinstance(failure, DiskFailed):
            return None
        self.failures += 1
        pause = back_off(self.failures, self.ctx.runtime.jitter(), 1.0)
        return pause if self.ctx.now() + pause < until else None

    async def again(self, failure: StoreUnavailable, until: float) -> None:
        """Pause after a copy without an answer. Raise ``failure`` if no other copy may be sent."""
        self.unanswered(failure)
        pause = self.pause(failure, until)
        if pause is None:
            raise failure
        await self.ctx.runtime.sleep(pause)

    async def insist(self, call: Callable[[float], Awaitable[T]], until: float) -> T:
        """Send the request until it is answered; return the answer. Raise the last failure if no
        copy can be sent before ``until``, and ``StoreUnavailable`` if the client was closed."""
        while True:
            left = until - self.sends()
            within = REQUEST_S if left > REQUEST_S else max(left, LEAST_S)
            try:
                answer = await call(within)
            except StoreUnavailable as failure:
                await self.again(failure, until)
                self.ctx.require_open()
            else:
                self.heard, self.failures = self.asked, 0  # `answered`, inline
                return answer
