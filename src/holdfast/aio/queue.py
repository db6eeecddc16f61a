"""Serial queues for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager as AsyncContext
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, overload

from ..core import checks
from ..core.context import Context
from ..core.queue import handlers
from ..core.queue.consume import Consumption
from ..core.queue.delivery import DeliveryBase
from ..core.queue.model import BATCH_MAX, JobRecord, QueueRecord
from ..core.queue.queue import QueueBase, Receipt
from ..core.queue.worker import WorkerBase
from .loops import here, leave_taken, require_home


class AsyncDelivery(DeliveryBase):
    """A taken job: no other worker gets it, or another job of its group, until it is settled.

    Settle it with ``ack()``, ``retry()``, ``dead_letter()`` or ``release()``, or use ``with``: it
    acks the job when the body ends, and retries the job when the body raises. Until it is settled,
    the lease is renewed. A forgotten delivery warns when it is collected; its job is delivered
    again when the lease expires.
    """

    __slots__ = ()

    async def ack(self) -> bool:
        """Report the job as done; return True if that counts. False: another verb, such as
        ``retry()``, has settled it, or the delivery was lost before. A lost job is delivered again,
        unless an earlier, unanswered request has settled it. ``StoreUnavailable``: the result is
        unknown; call it again."""
        require_home(self._ctx)
        return await self._settle(self._ack_request())

    async def retry(self, in_: float | None = None, reason: str = "") -> bool:
        """Retry the job after ``in_`` seconds, by default after the queue's back-off; later
        jobs of its group wait for it. After the last attempt it becomes a dead letter."""
        require_home(self._ctx)
        return await self._settle(self._retry_request(in_, reason))

    async def dead_letter(self, reason: str = "") -> bool:
        """Make the job a dead letter: it is kept aside with the reason, until it is retried or
        removed."""
        require_home(self._ctx)
        return await self._settle(self._dead_request(reason))

    async def release(self) -> bool:
        """Return the job as if it had not been taken; the attempt doesn't count."""
        require_home(self._ctx)
        return await self._settle(self._return_request())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await leave_taken(self._ctx, self, failure)


class AsyncWorker(WorkerBase):
    """Calls a handler for each job, for up to ``concurrency`` jobs at a time."""

    def _start(self) -> None:
        self._queue = here(self._queue)
        super()._start()

    async def run(self) -> None:
        """Work until ``stop()`` is called, from another thread or a signal handler; with ``drain``
        until no job is due. Running jobs are finished first."""
        self._start()
        try:
            await self._join(None)
        except BaseException:
            await self._interrupted()
            raise

    def start(self) -> Self:
        """Work in the background."""
        self._start()
        return self

    async def join(self, timeout: float | None = None) -> bool:
        """After ``stop()``: wait until the running jobs are finished; return False after the
        time-out. If you close the client after False, it releases these jobs, and another worker
        gets them."""
        return await self._join(timeout)

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(self, *failure: object) -> None:
        self.stop()
        await self.join()


class AsyncQueue(QueueBase):
    """A serial queue: jobs of one group are executed in order, one at a time."""

    _delivery = AsyncDelivery

    def _moved(self, ctx: Context) -> AsyncQueue:
        """Return the same queue for another loop."""
        return AsyncQueue(ctx, self._name, self._options)

    async def put(
        self,
        payload: Any,
        *,
        group: str | None = None,
        id: str | None = None,
        delay: float = 0.0,
    ) -> Receipt:
        """Put a job into the queue; when this returns, the store has accepted it.

        ``payload``: bytes, text, or a JSON value; ``ConfigError`` for a value that would not come
        back equal and of the same type. ``group``: jobs of one group are executed in the order in
        which they were accepted, one at a time; a job without a group runs in parallel with all
        others. ``id``: a second job with the same id is dropped (``receipt.duplicate``) while the
        first one is in the queue, and within the queue's ``dedup_window``. ``delay``: seconds
        before the job is executed; later jobs of its group wait for it. If the store doesn't
        answer, this tries again for 10 seconds, and then raises ``StoreUnavailable``.
        """
        return (await here(self)._put([self._job(payload, group, id, delay)]))[0]

    async def put_many(self, items: Iterable[Any], *, group: str | None = None) -> list[Receipt]:
        """Put many jobs, in order and up to 1,000 in a round trip; each such batch is accepted
        completely or not at all.

        An item is a payload, or a mapping with ``payload`` and, if wanted, ``group``, ``id`` and
        ``delay``.
        """
        return await here(self)._put(self._jobs(items, group))

    @overload
    async def take(self, timeout: None = None) -> AsyncDelivery: ...
    @overload
    async def take(self, timeout: float | None) -> AsyncDelivery | None: ...
    async def take(self, timeout: float | None = None) -> AsyncDelivery | None:
        """Take the next job that is due; None if there was none for ``timeout`` seconds (0: ask
        once; None: no limit). In a ``with`` statement use ``taking()`` if the queue can be empty,
        because ``with`` doesn't accept None."""
        found = await here(self)._take(1, checks.wait(True, timeout))
        return found[0] if found else None  # type: ignore[return-value]

    @overload
    def taking(self, timeout: None = None) -> AsyncContext[AsyncDelivery]: ...
    @overload
    def taking(self, timeout: float | None) -> AsyncContext[AsyncDelivery | None]: ...
    def taking(self, timeout: float | None = None) -> AsyncContext[AsyncDelivery | None]:
        """For ``with``: the next job, as ``take()`` returns it. If there was none, the body runs
        with None. The job is acked when the body ends, and retried when the body raises.
        """
        return self._taking(timeout)

    @asynccontextmanager
    async def _taking(self, timeout: float | None) -> AsyncGenerator[AsyncDelivery | None, None]:
        job = await self.take(timeout)
        if job is None:
            yield None
            return
        async with job:
            yield job

    async def take_many(self, limit: int, timeout: float | None = None) -> list[AsyncDelivery]:
        """Take at most ``limit`` jobs that are due, each of another group, in one round trip; wait
        until there is at least one."""
        count = checks.count("limit", limit, BATCH_MAX)
        return await here(self)._take(count, checks.wait(True, timeout))  # type: ignore[return-value]

    async def ack_many(self, jobs: Iterable[AsyncDelivery]) -> list[bool]:
        """Ack several deliveries in one round trip; return the result of ``ack()`` for each."""
        some: list[Any] = checks.several("jobs", jobs)
        for ctx in {one._ctx for one in some if isinstance(one, AsyncDelivery)}:
            require_home(ctx)
        return await here(self)._ack(some)

    async def consume(self, timeout: float | None = None) -> AsyncIterator[AsyncDelivery]:
        """Yield one job after the other, for a ``for`` loop; end if no job comes for ``timeout``
        seconds.

        The next step of the loop acks the last job, unless it was settled. If the loop is left, by
        an exception or by ``break``, an unsettled job is retried after a pause.
        """
        loop = Consumption(here(self), checks.wait(True, timeout))
        try:
            while (job := await loop.next()) is not None:
                yield job  # type: ignore[misc]
        finally:
            await loop.left()

    def worker(
        self,
        handler: Callable[[AsyncDelivery], object],
        *,
        concurrency: int = 1,
        drain: bool = False,
    ) -> AsyncWorker:
        """A worker that calls ``handler(job)``, up to ``concurrency`` at a time: ``worker.run()``.

        When the handler returns, the job is acked, unless the handler settled it. When it
        raises, the job is retried after a pause, until it is a dead letter. The same happens if the
        handler returns unfinished work, such as a generator or a Future. ``drain``: end when no job
        is due.
        """
        count = checks.count("concurrency", concurrency, 1000)
        handlers.check(handler, awaits=True)

        async def attempt(job: DeliveryBase) -> BaseException | None:
            try:
                found = handler(job)  # type: ignore[arg-type]
                if inspect.isawaitable(found):
                    found = await found
                return handlers.unrun(found)
            except asyncio.CancelledError:
                raise
            except BaseException as failure:
                if self._ctx.runtime.interrupts(failure):
                    raise
                return failure  # if this task raised a SystemExit, the event loop would end

        async def call(job: DeliveryBase) -> BaseException | None:
            # In a separate task, so that a handler that cancels its task cancels nothing else.
            task = asyncio.create_task(attempt(job))
            try:
                failure = await task
            except asyncio.CancelledError as cancelled:
                if self._ctx.runtime.interrupts(cancelled):
                    raise
                return cancelled
            me = asyncio.current_task()
            if me is not None and me.cancelling():  # yet the handler ran to its end
                worker.stop()
            return failure

        worker = AsyncWorker(self, call, count, checks.flag("drain", drain))
        return worker

    async def stats(self) -> QueueRecord:
        """Return the number of jobs in each state, and the age of the oldest."""
        return await here(self)._stats()

    async def jobs(
        self, state: str | None = None, *, group: str | None = None, limit: int = 100
    ) -> list[JobRecord]:
        """List at most ``limit`` jobs in the order of acceptance. ``state``: only ``"waiting"``,
        ``"delayed"``, ``"taken"`` or ``"dead"`` jobs. ``group``: only jobs of this group (``""``:
        only ungrouped jobs)."""
        return await here(self)._list(state, group, checks.count("limit", limit, 1_000_000))

    async def retry_dead(self, ids: Iterable[str] | None = None) -> int:
        """Retry the dead letters with these ids, or all; return their number. A dead letter that
        blocks its group keeps its place. The others go to the end of their groups, in the order in
        which they died."""
        return await here(self)._retry_dead(ids)

    async def purge(self, state: str | None = None, *, ids: Iterable[str] | None = None) -> int:
        """Remove the jobs in this state, or with these ids, or all; return their number. Taken jobs
        stay."""
        return await here(self)._purge(state, ids)
