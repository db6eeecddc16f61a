"""Serial queues for threads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, overload

from ..core import checks
from ..core.queue import handlers
from ..core.queue.consume import Consumption
from ..core.queue.delivery import DeliveryBase
from ..core.queue.model import BATCH_MAX, JobRecord, QueueRecord
from ..core.queue.queue import QueueBase, Receipt
from ..core.queue.worker import WorkerBase
from ..runtime.blocking import nested, outside, run_sync


class Delivery(DeliveryBase):
    """A taken job: no other worker gets it, or another job of its group, until it is settled.

    Settle it with ``ack()``, ``retry()``, ``dead_letter()`` or ``release()``, or use ``with``: it
    acks the job when the body ends, and retries the job when the body raises. Until it is settled,
    the lease is renewed. A forgotten delivery warns when it is collected; its job is delivered
    again when the lease expires.
    """

    __slots__ = ()

    def ack(self) -> bool:
        """Report the job as done; return True if that counts. False: another verb, such as
        ``retry()``, has settled it, or the delivery was lost before. A lost job is delivered again,
        unless an earlier, unanswered request has settled it. ``StoreUnavailable``: the result is
        unknown; call it again."""
        return run_sync(self._settle(self._ack_request()))

    def retry(self, in_: float | None = None, reason: str = "") -> bool:
        """Retry the job after ``in_`` seconds, by default after the queue's back-off; later
        jobs of its group wait for it. After the last attempt it becomes a dead letter."""
        return run_sync(self._settle(self._retry_request(in_, reason)))

    def dead_letter(self, reason: str = "") -> bool:
        """Make the job a dead letter: it is kept aside with the reason, until it is retried or
        removed."""
        return run_sync(self._settle(self._dead_request(reason)))

    def release(self) -> bool:
        """Return the job as if it had not been taken; the attempt doesn't count."""
        return run_sync(self._settle(self._return_request()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(failure, GeneratorExit) and nested(sys._getframe(1)):
            self._hand_over(self._verdict_on(failure))
        else:
            run_sync(self._leave(failure))


class Worker(WorkerBase):
    """Calls a handler for each job, for up to ``concurrency`` jobs at a time."""

    def run(self) -> None:
        """Work until ``stop()`` is called, from another thread or a signal handler; with ``drain``
        until no job is due. Running jobs are finished first."""
        self._start()
        try:
            run_sync(self._join(None))
        except BaseException:
            run_sync(self._interrupted())
            raise

    def start(self) -> Self:
        """Work in the background."""
        self._start()
        return self

    def join(self, timeout: float | None = None) -> bool:
        """After ``stop()``: wait until the running jobs are finished; return False after the
        time-out. If you close the client after False, it releases these jobs, and another worker
        gets them."""
        return run_sync(self._join(timeout))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *failure: object) -> None:
        self.stop()
        self.join()


class Queue(QueueBase):
    """A serial queue: jobs of one group are executed in order, one at a time."""

    _delivery = Delivery

    def put(
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
        return run_sync(self._put([self._job(payload, group, id, delay)]))[0]

    def put_many(self, items: Iterable[Any], *, group: str | None = None) -> list[Receipt]:
        """Put many jobs, in order and up to 1,000 in a round trip; each such batch is accepted
        completely or not at all.

        An item is a payload, or a mapping with ``payload`` and, if wanted, ``group``, ``id`` and
        ``delay``.
        """
        return run_sync(self._put(self._jobs(items, group)))

    @overload
    def take(self, timeout: None = None) -> Delivery: ...
    @overload
    def take(self, timeout: float | None) -> Delivery | None: ...
    def take(self, timeout: float | None = None) -> Delivery | None:
        """Take the next job that is due; None if there was none for ``timeout`` seconds (0: ask
        once; None: no limit). In a ``with`` statement use ``taking()`` if the queue can be empty,
        because ``with`` doesn't accept None."""
        found = run_sync(self._take(1, checks.wait(True, timeout)))
        return found[0] if found else None  # type: ignore[return-value]

    @overload
    def taking(self, timeout: None = None) -> Context[Delivery]: ...
    @overload
    def taking(self, timeout: float | None) -> Context[Delivery | None]: ...
    def taking(self, timeout: float | None = None) -> Context[Delivery | None]:
        """For ``with``: the next job, as ``take()`` returns it. If there was none, the body runs
        with None. The job is acked when the body ends, and retried when the body raises.
        """
        return self._taking(timeout)

    @contextmanager
    def _taking(self, timeout: float | None) -> Generator[Delivery | None, None, None]:
        job = self.take(timeout)
        if job is None:
            yield None
            return
        with job:
            yield job

    def take_many(self, limit: int, timeout: float | None = None) -> list[Delivery]:
        """Take at most ``limit`` jobs that are due, each of another group, in one round trip; wait
        until there is at least one."""
        count = checks.count("limit", limit, BATCH_MAX)
        return run_sync(self._take(count, checks.wait(True, timeout)))  # type: ignore[arg-type]

    def ack_many(self, jobs: Iterable[Delivery]) -> list[bool]:
        """Ack several deliveries in one round trip; return the result of ``ack()`` for each."""
        return run_sync(self._ack(jobs))

    def consume(self, timeout: float | None = None) -> Iterator[Delivery]:
        """Yield one job after the other, for a ``for`` loop; end if no job comes for ``timeout``
        seconds.

        The next step of the loop acks the last job, unless it was settled. If the loop is left, by
        an exception or by ``break``, an unsettled job is retried after a pause.
        """
        loop = Consumption(self, checks.wait(True, timeout))
        try:
            while (job := run_sync(loop.next())) is not None:
                yield job  # type: ignore[misc]
        except GeneratorExit:
            if nested(sys._getframe(1)):
                loop.abandoned()
            raise
        finally:
            run_sync(loop.left())

    def worker(
        self,
        handler: Callable[[Delivery], object],
        *,
        concurrency: int = 1,
        drain: bool = False,
    ) -> Worker:
        """A worker that calls ``handler(job)``, up to ``concurrency`` at a time: ``worker.run()``.

        When the handler returns, the job is acked, unless the handler settled it. When it
        raises, the job is retried after a pause, until it is a dead letter. The same happens if the
        handler returns unfinished work, such as a generator or a Future. ``drain``: end when no job
        is due.
        """
        count = checks.count("concurrency", concurrency, 1000)
        handlers.check(handler, awaits=False)

        async def call(job: DeliveryBase) -> BaseException | None:
            try:
                return handlers.unrun(outside(handler, job))
            except BaseException as failure:  # also what would end this thread
                return failure

        return Worker(self, call, count, checks.flag("drain", drain))

    def stats(self) -> QueueRecord:
        """Return the number of jobs in each state, and the age of the oldest."""
        return run_sync(self._stats())

    def jobs(
        self, state: str | None = None, *, group: str | None = None, limit: int = 100
    ) -> list[JobRecord]:
        """List at most ``limit`` jobs in the order of acceptance. ``state``: only ``"waiting"``,
        ``"delayed"``, ``"taken"`` or ``"dead"`` jobs. ``group``: only jobs of this group (``""``:
        only ungrouped jobs)."""
        return run_sync(self._list(state, group, checks.count("limit", limit, 1_000_000)))

    def retry_dead(self, ids: Iterable[str] | None = None) -> int:
        """Retry the dead letters with these ids, or all; return their number. A dead letter that
        blocks its group keeps its place. The others go to the end of their groups, in the order in
        which they died."""
        return run_sync(self._retry_dead(ids))

    def purge(self, state: str | None = None, *, ids: Iterable[str] | None = None) -> int:
        """Remove the jobs in this state, or with these ids, or all; return their number. Taken jobs
        stay."""
        return run_sync(self._purge(state, ids))
