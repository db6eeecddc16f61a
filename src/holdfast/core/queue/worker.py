"""A worker: loops that take a job, call a handler, and settle by what came of it.

Whatever a handler raises or returns is the fate of its job alone: the loop continues. A loop ends
when it is told to, or by an error of the store that isn't a matter of time, which ``run`` raises.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import StoreUnavailable
from .. import checks
from ..policy import UNDO_S, back_off
from .delivery import DeliveryBase
from .model import Settle
from .ports import onward_of, queues_of
from .settling import Done
from .silence import Silence

if TYPE_CHECKING:
    from .queue import QueueBase

log = logging.getLogger("holdfast")

#: Calls the handler: what it raised, or None if it did its work. Raises what interrupts the worker.
Call = Callable[[DeliveryBase], Awaitable[BaseException | None]]

#: Who waits for the end of all loops looks this often, in seconds.
LOOK_S = 0.5


class _Tally:
    """What one loop has done. Only that loop counts here, so nothing gets lost between threads."""

    __slots__ = ("done", "failed", "failure", "over")

    def __init__(self) -> None:
        self.done = self.failed = 0
        self.over = False
        #: What ended it, if it was not told to end.
        self.failure: BaseException | None = None


class WorkerBase:
    """Works on a queue until it is stopped; survives a store that doesn't answer for a while."""

    def __init__(
        self,
        queue: QueueBase,
        call: Call,
        concurrency: int,
        drain: bool,
    ) -> None:
        self._queue = queue
        self._call = call
        self._concurrency = concurrency
        #: End when nothing is due any more?
        self._drain = drain
        self._stopping = self._cancelled = False
        #: Tells that the store does not answer.
        self._silence = Silence(queue._ctx.now, self._tell_silence)
        self._tallies: list[_Tally] = []
        self._ended = queue._ctx.runtime.latch()
        self._cancels: list[Callable[[], object]] = []

    @property
    def done(self) -> int:
        """How many jobs its handler has finished."""
        return sum(one.done for one in self._tallies)

    @property
    def failed(self) -> int:
        """How often its handler has raised."""
        return sum(one.failed for one in self._tallies)

    @property
    def _running(self) -> bool:
        return not all(one.over for one in self._tallies)

    def __reduce__(self) -> Any:
        raise checks.unpicklable(self)

    def __repr__(self) -> str:
        stands = "stopping" if self._stopping else "running" if self._running else "idle"
        return f"<{type(self).__name__} of {self._queue.name!r} {stands} done={self.done}>"

    def stop(self) -> None:
        """Take no more jobs; those that are being worked on are finished. May be called from a
        signal handler, and again."""
        self._stopping = True

    def _start(self) -> None:
        runtime = self._queue._ctx.runtime
        for number in range(self._concurrency):
            tally = _Tally()
            self._tallies.append(tally)
            name = f"holdfast-worker-{self._queue.name}-{number}"
            loop, over = partial(self._loop, tally), partial(self._over, tally)
            try:
                self._cancels.append(runtime.background(loop, over, name))
            except BaseException:
                tally.over = True
                self.stop()  # those that were started
                raise

    def _over(self, tally: _Tally) -> None:
        tally.over = True
        self._ended.set()

    async def _join(self, timeout: float | None) -> bool:
        """Wait until all loops have ended, and raise what ended one; False when the time has
        expired before."""
        if not await self._all_over(checks.wait(True, timeout)):
            return False
        for tally in self._tallies:
            failure, tally.failure = tally.failure, None
            if isinstance(failure, Exception):
                raise failure
            if failure is not None:
                what = f"a loop of the worker of {self._queue.name!r} was ended from outside"
                raise RuntimeError(what) from failure
        return True

    async def _all_over(self, timeout: float | None) -> bool:
        ctx = self._queue._ctx
        end = None if timeout is None else ctx.now() + timeout
        while self._running:
            left = LOOK_S if end is None else min(LOOK_S, end - ctx.now())
            if left <= 0:
                return False
            await self._ended.wait(left)
        return True

    async def _interrupted(self) -> None:
        """Whoever runs it is cancelled or interrupted: what it works on is returned where it can
        be cancelled, and may be finished soon elsewhere."""
        self.stop()
        self._cancelled = True
        for cancel in self._cancels:
            cancel()
        await self._all_over(UNDO_S)

    def _halted(self) -> bool:
        return self._stopping

    async def _loop(self, tally: _Tally) -> None:
        try:
            await self._work_on(tally)
        except BaseException as failure:
            if not self._cancelled:
                tally.failure = failure
                self.stop()  # or whoever runs it would hear of this when all others have ended
                text = "the worker of %r ends, as one of its loops did: %s: %s"
                log.error(text, self._queue.name, type(failure).__name__, failure)
            if not isinstance(failure, Exception):
                raise

    async def _work_on(self, tally: _Tally) -> None:
        failures = 0
        #: What was worked on last, and is to be settled yet.
        last: Done | None = None
        while not self._stopping:
            try:
                found = await self._next(last)
            except StoreUnavailable as failure:
                if last is not None and last[0]._lease.end is None:
                    await self._settle(*last, failure)
                    last = None
                    continue
                if self._queue._ctx.closed:
                    return
                last = None
                failures += 1
                await self._queue._ctx.runtime.sleep(back_off(failures, 1.0, 1.0))
                continue
            except Exception:
                if last is not None:
                    last[0]._give_up(last[1])
                raise
            failures, last = 0, None
            if found and self._halted():  # it was asked for before
                await self._settle(found[0], found[0]._return_request())
            elif found:
                last = await self._work(found[0], tally)
            elif self._drain:
                return
        if last is not None:
            await self._settle(*last)

    def _tell_silence(self, failure: StoreUnavailable | None) -> None:
        if failure is None:
            log.info("the store of the worker of %r answers again", self._queue.name)
        else:
            log.warning("%s; the worker of %r goes on trying", failure, self._queue.name)

    async def _next(self, last: Done | None) -> list[DeliveryBase]:
        """The next one. With a last one, that is settled by the same request, and nothing is
        waited for."""
        wait = 0.0 if self._drain or last is not None else None
        found = await self._queue._take(1, wait, self._halted, last, self._silence)
        if last is not None:
            _tell(last[0])
        return found

    async def _work(self, job: DeliveryBase, tally: _Tally) -> Done | None:
        """Have it worked on, and settled, unless the store can do that with the next take: then
        what it is to be settled by."""
        try:
            failure = await self._call(job)
        except BaseException as wrong:
            await job._leave(wrong)
            raise
        if failure is None:
            tally.done += 1
        else:
            tally.failed += 1
            log.warning("%r failed", job, exc_info=failure)
        if job.settled:
            return None
        settle = job._ack_request() if failure is None else job._failed_request(failure)
        if onward_of(queues_of(self._queue._ctx.store)) is not None:
            return job, settle
        await self._settle(job, settle)
        return None

    async def _settle(
        self, job: DeliveryBase, settle: Settle, failure: StoreUnavailable | None = None
    ) -> None:
        """Settle it, as long as the lease lasts: what was done isn't to be done again because the
        store was away for a moment. ``failure``: of the first time that it was tried."""
        failures, kept = 0, None
        while kept is None:
            if failure is not None:
                failures += 1
                if failures == 1:
                    log.warning("%r: %s; it is tried again", job, failure)
                await self._queue._ctx.runtime.sleep(back_off(failures, 1.0, 1.0))
            try:
                kept = await job._settle(settle, failures > 0)
            except StoreUnavailable as wrong:
                failure = wrong
            except Exception:
                job._give_up(settle)
                raise
        _tell(job)


def _tell(job: DeliveryBase) -> None:
    """Say so if that it was settled does not count."""
    if not job._kept:
        log.warning("%r: %s; it comes again", job, job.lost)
