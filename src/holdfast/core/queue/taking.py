"""Take jobs: the only waiting loop of queues, and the only release of a take.

If the loop is interrupted, a take that can have got a delivery is released.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import StoreUnavailable
from ..asking import Asking
from ..claims import TRY_S
from ..policy import REQUEST_S, REQUEST_S_MIN, SILENCE_S, nap
from .model import Take, Taken
from .ports import Queues, onward_of
from .settling import Done, Settling

if TYPE_CHECKING:
    from .delivery import DeliveryBase
    from .queue import QueueBase
    from .silence import Silence


def never() -> bool:
    """The default of ``halted``: it never ends a take."""
    return False


class Taking(Asking):
    """One request for up to ``most`` deliveries, with a time-out in seconds (None: no time limit).
    ``halted`` is called at least once a second; the request ends early if it returns True.
    ``done``: a settle to send before the first request, or in it if the store can do both at once.
    ``silence`` is notified of each failure and each reply."""

    def __init__(
        self,
        queue: QueueBase,
        queues: Queues,
        most: int,
        timeout: float | None,
        halted: Callable[[], bool],
        done: Done | None,
        silence: Silence | None = None,
    ) -> None:
        self._queue = queue
        self._queues = queues
        self.ctx = queue._ctx
        self._most = most
        self._halted = halted
        self._done = done
        self._silence = silence
        self._begin(timeout)
        self._anew()

    def _begin(self, timeout: float | None) -> None:
        """Start the time-out."""
        self._begun = self.heard = self.ctx.now()
        self._timeout = timeout
        self._end = math.inf if timeout is None else self._begun + timeout
        #: The last request doesn't wait for jobs, so it has the time-out of a try.
        self._limit = self._end + TRY_S

    def _anew(self) -> None:
        """Start another take, with a new id."""
        self.forget()
        queue, ctx = self._queue, self.ctx
        options, waits = queue._options, self._end > self._begun
        lease = min(options.ttl, ctx.store.lease_max)
        what = (self._most, lease, ctx.owner, options.pace, options.patience, waits)
        self._take = Take(queue.name, ctx.runtime.new_id(), *what)

    async def run(self) -> list[DeliveryBase]:
        """Return the deliveries; none after the time-out."""
        ctx = self.ctx
        ctx.under_way[self] = lambda: (self._take,)
        try:
            return await self._run()
        finally:
            ctx.under_way.pop(self, None)

    async def _run(self) -> list[DeliveryBase]:
        ctx, queues = self.ctx, self._queues
        while True:
            made: list[DeliveryBase] = []
            try:
                taken = await self._wait()
                queues.unlisten(self._take)
                if taken is not None:
                    since = ctx.now() if self.first is None else self.first
                    made = self._queue._made(self._take, taken, since, self.suspect)
                    if made:
                        return made
            except GeneratorExit:  # the coroutine is being closed: nothing may be awaited
                ctx.keeper.later(self._take, ctx.now() + self._take.ttl)
                raise
            except BaseException:
                for one in made:
                    one._forgo()
                queues.unlisten(self._take)
                await ctx.undo(self._take)
                raise
            if taken is not None or self.suspect:  # too late, or a copy is under way
                await ctx.put_back(self._take)
            if taken is None:
                return []
            self._anew()

    async def _wait(self) -> Taken | None:
        """Return the store's reply; None after the time-out."""
        ctx, queues = self.ctx, self._queues
        if self._done is not None:
            found = await self._settle_and_ask(self._done)
            if found is not None and (found.deliveries or not self._take.wait):
                return found if found.deliveries else None
        while not self._halted():
            over = ctx.now() >= self._end
            taken = await self._ask(over)
            if taken is not None and taken.deliveries:
                return taken
            if taken is not None:
                if over or not self._take.wait:
                    return None
                await queues.wait(self._take, nap(taken.retry_in, self._end - ctx.now()))
                ctx.require_open()
        return None

    async def _settle_and_ask(self, last: Done) -> Taken | None:
        """Settle ``last`` and take due jobs in one request. Return None if only ``last`` was
        settled, in a separate request. If the common request failed before that, the time-out
        starts again."""
        self._done, onward = None, onward_of(self._queues)
        take = self._take
        if take.wait:
            take = take._replace(wait=False)
        done = Settling(self.ctx, (last,))
        if onward is None or not done.settles:
            await done.run()
            return None
        self.sends()
        try:
            answers, taken = await onward.settle_and_take(done.settles, take, done.within())
        except StoreUnavailable as failure:
            self.unanswered(failure)
            done.unanswered(failure)
            await done.run()
            self._begin(self._timeout)
            return None
        except BaseException as failure:
            done.failed(failure)
            raise
        undecided = done.learn(answers)
        self._answered(taken)
        if undecided:
            await done.decided()
        return taken

    def _answered(self, taken: Taken) -> None:
        """Note the answer to the last copy of the take."""
        self.answered(nothing=not taken.deliveries)
        if self._silence is not None:
            self._silence.answered()

    async def _ask(self, over: bool) -> Taken | None:
        """Send the take once; None: it got no reply, and there is time for another try. ``over``:
        the time-out has expired, so the take doesn't wait, and no wake-up is sent to it."""
        ctx = self.ctx
        ctx.require_open()
        take = self._take
        if over and take.wait:
            take = take._replace(wait=False)
        within = min(REQUEST_S, max(self._limit - self.sends(), REQUEST_S_MIN))
        try:
            taken = await self._queues.take(take, within)
        except StoreUnavailable as failure:
            ctx.require_open()
            if self._silence is not None:
                self._silence.failed(failure, self.asked)
            await self.again(failure, min(self._limit, self.heard + SILENCE_S))
            return None
        self._answered(taken)
        return taken
