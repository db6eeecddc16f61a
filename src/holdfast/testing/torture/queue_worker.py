"""The processes of a queue's torture: putters put jobs, workers take and settle them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...errors import LockLost, NotHeld, StoreUnavailable
from ..faces import now
from ..faults.stage import Stage
from .process import Process

#: Number of ungrouped jobs, as a part of the number of grouped jobs.
PLAIN_PART = 0.05
#: Part of the deliveries that are settled by a retry; part that are released.
RETRY_PART = RETURN_PART = 0.03
#: Part of the deliveries that are checked before they are settled.
LOOK_PART = 0.5
#: Maximum number of jobs that a worker takes at a time; time-out of a take, seconds.
BATCH, LOOK_S = 8, 0.2
#: Part of the turns that use ``consume`` instead of a take; maximum number of jobs in such a turn.
LOOP_PART, LOOP = 0.3, 12


class Work(NamedTuple):
    """The options that all processes of a run share; see ``Options`` of the run."""

    store: str
    folder: str
    queue: str
    seed: int
    putters: int
    groups: int
    jobs: int
    batch: int
    body: float
    interval: float
    interval_from: str
    ttl: float


def put(stage: Stage, number: int, face: str, options: list[Any]) -> None:
    """Put all jobs of one putter; the putters of a run execute this."""
    Putter(stage, number, face, Work(*options)).live()


def work(stage: Stage, number: int, face: str, options: list[Any]) -> None:
    """Take and settle jobs until the message to end; the workers of a run execute this."""
    Worker(stage, f"worker-{number}", face, Work(*options)).live()


class Queued(Process):
    """A process with a queue."""

    def __init__(self, stage: Stage, name: str, face: str, options: Work) -> None:
        super().__init__(stage, name, face, options)
        self._options = options
        self._queue: Any = self._client.queue(
            options.queue,
            min_interval=options.interval,
            interval_from=options.interval_from,  # type: ignore[arg-type]
            ttl=options.ttl,
            max_attempts=1_000_000,
            retry_delay=0.0,
            retry_delay_max=0.0,
        )


class Putter(Queued):
    """A process that puts its share of the jobs, and ends."""

    def __init__(self, stage: Stage, number: int, face: str, options: Work) -> None:
        super().__init__(stage, f"putter-{number}", face, options)
        self._number = number

    async def work(self) -> None:
        """Put the jobs in batches; repeat each batch until the store has accepted it."""
        share = self._share(self._number)
        while batch := list(itertools.islice(share, self._options.batch)):
            put, dropped, sent = self._recorder.put(batch), 0, 1
            items = [
                {"payload": [group, n], "group": group or None, "id": f"{group}#{self._number}#{n}"}
                for group, n in batch
            ]
            while True:
                try:
                    receipts = await self._queue.put_many(items)
                except StoreUnavailable:
                    sent += 1
                    await self._face.sleep(0.05)
                    continue
                dropped = sum(one.duplicate for one in receipts)
                break
            self._recorder.accepted(put, dropped, sent)

    def _share(self, number: int) -> Iterator[tuple[str, int]]:
        """Yield the jobs of this putter as (group, number); an empty group means ungrouped.

        Its groups have the numbers ``number``, ``number + putters``, and so on.
        """
        options = self._options
        groups = [f"group-{one}" for one in range(number, options.groups, options.putters)]
        each = options.jobs // options.groups
        plain = itertools.count(number * options.jobs + 1)
        for n in range(1, each + 1):
            self._dice.shuffle(groups)
            for group in groups:
                yield group, n
                if self._dice.random() < PLAIN_PART:
                    yield "", next(plain)


class Worker(Queued):
    """A process that takes jobs and settles them."""

    async def turn(self) -> None:
        """Take several jobs with one request, or loop over jobs that are taken one by one."""
        if self._dice.random() < LOOP_PART:
            # The end of the loop settles the last job, too, and can find the store away.
            with contextlib.suppress(StoreUnavailable):
                await self._loop()
            return
        asked = now()
        try:
            jobs = await self._queue.take_many(self._dice.randint(1, BATCH), LOOK_S)
        except StoreUnavailable:
            await self._face.sleep(0.05)
            return
        taken = []
        for job in jobs:
            group, number = job.payload
            taken.append((self._recorder.took(asked, group, number, job), job))
        for execution, job in taken:
            await self._execute(execution, job)

    async def _loop(self) -> None:
        """Take some jobs one after the other; taking the next job acks the previous one."""
        last: tuple[int, Any] | None = None
        async with contextlib.aclosing(self._queue.consume(LOOK_S)) as loop:
            for _ in range(self._dice.randint(2, LOOP)):
                if last is not None:
                    self._recorder.settling(last[0], "ack")
                asked = now()
                try:
                    job = await anext(loop, None)
                except LockLost:
                    break
                except StoreUnavailable:
                    await self._unknown(last)
                    return
                self._left(last)
                last = None
                if job is None:
                    return
                group, number = job.payload
                last = self._recorder.took(asked, group, number, job), job
                if not await self._look(*last):
                    return
            else:
                assert last is not None
                await self._execute(*last)
                return
        self._left(last)

    def _left(self, last: tuple[int, Any] | None) -> None:
        if last is not None:
            self._record(*last, last[1].settled)

    def _record(self, execution: int, job: Any, settled: bool) -> None:
        """Record the result of a settle. If an earlier copy of its request got no answer, this copy
        may have counted although the delivery was lost before the next one."""
        if not settled and job._lease.unsure:
            self._recorder.unknown(execution)
        else:
            self._recorder.left(execution, settled)

    async def _unknown(self, last: tuple[int, Any] | None) -> None:
        """Record that the settle of this job got no reply, and try to release the job."""
        if last is None:
            await self._face.sleep(0.05)
            return
        self._recorder.unknown(last[0])
        with contextlib.suppress(StoreUnavailable):
            await last[1].release()

    async def _execute(self, execution: int, job: Any) -> None:
        """Wait a little, check the delivery, and settle it."""
        if not await self._look(execution, job):
            return
        dice = self._dice.random()
        if dice < RETRY_PART:
            self._recorder.settling(execution, "retry")
            settled = job.retry(0.0)
        elif dice < RETRY_PART + RETURN_PART:
            self._recorder.settling(execution, "return")
            settled = job.release()
        else:
            self._recorder.settling(execution, "ack")
            settled = job.ack()
        try:
            self._record(execution, job, await settled)
        except StoreUnavailable:
            await self._unknown((execution, job))

    async def _look(self, execution: int, job: Any) -> bool:
        """Wait a little, and sometimes check the delivery; return False if it is lost."""
        if self._options.body:
            await self._face.sleep(self._dice.random() * 2 * self._options.body)
        if self._dice.random() < LOOK_PART:
            try:
                self._recorder.look(execution, job)
            except (LockLost, NotHeld):
                return False
        return True
