"""A worker: loops that take a job, call a handler, and settle the job by its outcome.

An exception of a handler affects only its job; the loop continues. A loop ends when it is stopped,
or by a permanent error of the store, which ``run`` raises.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors import StoreUnavailable
from .. import checks
from ..policy import UNDO_S, back_off
from ..refused_with import OneWith
from .delivery import DeliveryBase
from .model import Settle
from .ports import onward_of, queues_of
from .settling import Done
from .silence import Silence

if TYPE_CHECKING:
    from .queue import QueueBase

log = logging.getLogger("holdfast")

#: Calls the handler; returns its exception, or None. Raises only an interruption of the worker.
Call = Callable[[DeliveryBase], Awaitable[BaseException | None]]

#: A caller that waits for the end of all loops checks them at this interval, in seconds.
LOOK_S = 0.5


class _Tally:
    """The counts of one loop. Only that loop changes them, so no count is lost between threads."""

    __slots__ = ("done", "failed", "failure", "over")

    def __init__(self) -> None:
        self.done = self.failed = 0
        self.over = False
        #: The exception that ended the loop; None if it was stopped.
        self.failure: BaseException | None = None


class WorkerBase(OneWith):
    """Work on a queue until stopped; keep working when the store doesn't answer for a while."""

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
        #: True: end when no job is due.
        self._drain = drain
        self._stopping = self._cancelled = False
        #: Logs that the store does not answer.
        self._silence = Silence(queue._ctx.now, self._tell_silence)
        self._tallies: list[_Tally] = []
        self._ended = queue._ctx.runtime.latch()
        self._cancels: list[Callable[[], object]] = []

    @property
    def done(self) -> int:
        """The number of jobs that the handler has finished."""
        return sum(one.done for one in self._tallies)

    @property
    def failed(self) -> int:
        """The number of calls in which the handler failed."""
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
        """Take no more jobs, and finish the jobs that were taken. You may call it in a signal
        handler, and more than once."""
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
                self.stop()  # ends the loops that were started
                raise

    def _over(self, tally: _Tally) -> None:
        tally.over = True
        self._ended.set()

    async def _join(self, timeout: float | None) -> bool:
        """Wait until all loops have ended, and raise the error that ended a loop; return False
        after the time-out."""
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
        """Stop after the caller of ``run`` was cancelled or interrupted. Running jobs are released
        if they can be cancelled; otherwise their threads can still finish them."""
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
                self.stop()  # else `run` would raise this only after all other loops had ended
                text = "the worker of %r ends, as one of its loops did: %s: %s"
                log.error(text, self._queue.name, type(failure).__name__, failure)
            if not isinstance(failure, Exception):
                raise

    async def _work_on(self, tally: _Tally) -> None:
        failures = 0
        #: The last job that was worked on, if the job is not settled yet.
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
            if found and self._halted():  # the request was sent before the stop
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
            log.warning("%s; the worker of %r keeps trying", failure, self._queue.name)

    async def _next(self, last: Done | None) -> list[DeliveryBase]:
        """Return the next delivery, in a list. ``last``: a job to settle with the same request,
        which then doesn't wait."""
        wait = 0.0 if self._drain or last is not None else None
        found = await self._queue._take(1, wait, self._halted, last, self._silence)
        if last is not None:
            _tell(last[0])
        return found

    async def _work(self, job: DeliveryBase, tally: _Tally) -> Done | None:
        """Call the handler and settle the job. If the store can settle it together with the next
        take, return the job and its settle instead."""
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
        """Repeat the settle while the lease lasts: otherwise finished work would be repeated after
        an outage of the store. ``failure``: the failure of the first try, if it was made."""
        failures, kept = 0, None
        while kept is None:
            if failure is not None:
                failures += 1
                if failures == 1:
                    log.warning("%r: %s; the settle is repeated", job, failure)
                await self._queue._ctx.runtime.sleep(back_off(failures, 1.0, 1.0))
            try:
                kept = await job._settle(settle)
            except StoreUnavailable as wrong:
                failure = wrong
            except Exception:
                job._give_up(settle)
                raise
        _tell(job)


def _tell(job: DeliveryBase) -> None:
    """Log that the settle of a job did not count."""
    if not job._kept:
        log.warning("%r: %s; the job is delivered again", job, job.lost)
