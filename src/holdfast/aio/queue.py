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
    """A job on loan: nobody else gets it, or another one of its group, until it is settled.

    Settle it with ``ack()``, ``retry()``, ``dead_letter()`` or ``give_back()``, or use ``with``: a
    body that ends acks it, one that raises has it tried again. Its lease is renewed until then.
    Forgotten, it warns when it is collected, and comes again after its lease.
    """

    __slots__ = ()

    async def ack(self) -> bool:
        """It is done. True if that counts; False if the delivery was lost before: the job comes
        again, unless an earlier call that was not answered had settled it; or if it was settled by
        another verb, such as ``retry()``. ``StoreUnavailable``: not known; call it again."""
        require_home(self._ctx)
        return await self._settle(self._ack_request())

    async def retry(self, in_: float | None = None, reason: str = "") -> bool:
        """Have it tried again after ``in_`` seconds, by default after the queue's back-off; those
        behind it in its group wait for it. After the last attempt it is a dead letter."""
        require_home(self._ctx)
        return await self._settle(self._retry_request(in_, reason))

    async def dead_letter(self, reason: str = "") -> bool:
        """Give it up: it is kept aside with the reason, until somebody retries or removes it."""
        require_home(self._ctx)
        return await self._settle(self._dead_request(reason))

    async def give_back(self) -> bool:
        """Return it as if it had not been taken; the attempt doesn't count."""
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
        until nothing is due. What is being worked on is finished first."""
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
        """After ``stop()``: wait until what is being worked on is finished; False when the time is
        over first. Closing the client then gives it back, and it comes again elsewhere."""
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
        """The same queue in the context of another loop."""
        return AsyncQueue(ctx, self._name, self._options)

    async def put(
        self,
        payload: Any,
        *,
        group: str | None = None,
        id: str | None = None,
        delay: float = 0.0,
    ) -> Receipt:
        """Have the store accept a job; it has it when this returns.

        ``payload``: bytes, text, or what JSON has; whatever would not come back equal and of the
        same type is ``ConfigError``. ``group``: jobs of one group are executed in the order in
        which they were accepted, one at a time; without one it runs beside all others. ``id``: a
        job with the same id is dropped (``receipt.duplicate``) as long as the first one is there,
        and within the queue's ``window``. ``delay``: seconds before which it isn't executed, nor
        what is behind it in its group. A store that doesn't answer is tried again for 10 seconds;
        then this raises ``StoreUnavailable``.
        """
        return (await here(self)._put([self._job(payload, group, id, delay)]))[0]

    async def put_many(self, items: Iterable[Any], *, group: str | None = None) -> list[Receipt]:
        """Have many accepted, up to 1,000 in a round trip, each batch as a whole and in order.

        An item is a payload, or a mapping with ``payload`` and, if wanted, ``group``, ``id`` and
        ``delay``.
        """
        return await here(self)._put(self._jobs(items, group))

    @overload
    async def take(self, timeout: None = None) -> AsyncDelivery: ...
    @overload
    async def take(self, timeout: float | None) -> AsyncDelivery | None: ...
    async def take(self, timeout: float | None = None) -> AsyncDelivery | None:
        """The next job that is due; None if there was none for ``timeout`` seconds (0: one look;
        None: wait without end). For ``with`` on a queue that may be empty there is ``taking()``, as
        None has no ``with``."""
        found = await here(self)._take(1, checks.wait(True, timeout))
        return found[0] if found else None  # type: ignore[return-value]

    @overload
    def taking(self, timeout: None = None) -> AsyncContext[AsyncDelivery]: ...
    @overload
    def taking(self, timeout: float | None) -> AsyncContext[AsyncDelivery | None]: ...
    def taking(self, timeout: float | None = None) -> AsyncContext[AsyncDelivery | None]:
        """For ``with``: the next job, as ``take()`` gives it, and None if there was none, with
        which the body runs, too. A body that ends acks the job, one that raises has it tried again.
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

    async def take_many(self, most: int, timeout: float | None = None) -> list[AsyncDelivery]:
        """Up to ``most`` jobs that are due, each of another group, in one round trip; as soon as
        there is one."""
        count = checks.count("most", most, BATCH_MAX)
        return await here(self)._take(count, checks.wait(True, timeout))  # type: ignore[return-value]

    async def ack_many(self, jobs: Iterable[AsyncDelivery]) -> list[bool]:
        """They are done: which of that counts, see ``ack()`` of a delivery; in one round trip."""
        some: list[Any] = checks.several("jobs", jobs)
        for ctx in {one._ctx for one in some if isinstance(one, AsyncDelivery)}:
            require_home(ctx)
        return await here(self)._ack(some)

    async def consume(self, timeout: float | None = None) -> AsyncIterator[AsyncDelivery]:
        """One job after the other, for a ``for`` loop; it ends when none came for ``timeout``
        seconds.

        To go on to the next one acks the last, unless it was settled. If the loop is left, by an
        exception or by ``break``, a job that was not settled is tried again after a pause.
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

        A handler that returns has done the job, unless it settled it; one that raises, whatever it
        is, has it tried again after a pause, until it is a dead letter. So does work that it
        returns undone, such as a generator or a Future. ``drain``: ends when nothing is due.
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
                return failure  # raised by this task, SystemExit would end the event loop

        async def call(job: DeliveryBase) -> BaseException | None:
            # In a task of its own, so that a handler that cancels its task cancels nothing else.
            task = asyncio.create_task(attempt(job))
            try:
                failure = await task
            except asyncio.CancelledError as cancelled:
                if self._ctx.runtime.interrupts(cancelled):
                    raise
                return cancelled
            me = asyncio.current_task()
            if me is not None and me.cancelling():  # the handler went on to its end all the same
                worker.stop()
            return failure

        worker = AsyncWorker(self, call, count, checks.flag("drain", drain))
        return worker

    async def stats(self) -> QueueRecord:
        """How many jobs stand where, and how old the oldest is."""
        return await here(self)._stats()

    async def jobs(
        self, state: str | None = None, *, group: str | None = None, most: int = 100
    ) -> list[JobRecord]:
        """Up to ``most`` jobs in the order of acceptance: all, or those that are ``"waiting"``,
        ``"delayed"``, ``"taken"`` or ``"dead"``, or those of a group (``""``: the plain lane)."""
        return await here(self)._list(state, group, checks.count("most", most, 1_000_000))

    async def revive(self, ids: Iterable[str] | None = None) -> int:
        """Try dead letters again, these or all; how many. One that blocks its group goes on where
        it stands, any other at the end of its group, in the order in which they died."""
        return await here(self)._revive(ids)

    async def purge(self, state: str | None = None, *, ids: Iterable[str] | None = None) -> int:
        """Remove jobs: those that stand so, or these, or all; how many. What is on loan stays."""
        return await here(self)._purge(state, ids)
