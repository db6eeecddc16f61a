"""The torture of serial queues: some processes put, others take, until all is done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ...core.queue import payload
from ...core.queue.model import QueueRecord
from ...core.queue.ports import queues_of
from ...errors import StoreUnavailable
from ...runtime.blocking import run_sync
from ..histories import Verdict, judge_files
from .queue_worker import Work
from .run import Outcome, Run, place

#: The store answers within this time, seconds...
SOON_S = 120.0
#: ...and while a worker is stopped, which may hold it up, it isn't waited for.
LOOK_S = 0.05
#: A stopped worker sleeps up to this many times its ttl.
STOP_PART = 2.0
#: Maximum number of jobs that the queue is asked for at the end; seconds between two looks at it.
MOST, EVERY_S = 1_000_000, 0.05


class Options(NamedTuple):
    """A run: where, and how many. Times are in seconds.

    ``jobs`` in ``groups`` groups, and a few ungrouped ones, put by ``putters`` processes in
    batches of ``batch``; ``body``: how long an execution takes. ``interval``, ``from_``: the
    queue's ``min_interval``, and from when it counts. ``strikes``: what is done to workers, each as
    often as it stands here, about once in ``every`` seconds and ``most`` times; none if either is
    0. ``limit``: after this many seconds it is given up. ``first``: see ``Subject``.
    """

    store: str = ""
    seed: int = 0
    groups: int = 20
    jobs: int = 400
    processes: int = 4
    putters: int = 2
    batch: int = 20
    body: float = 0.002
    interval: float = 0.02
    from_: str = "ack"
    ttl: float = 1.0
    strikes: tuple[str, ...] = ("kill", "kill", "stop")
    every: float = 0.5
    most: int = 1_000_000
    limit: float = 120.0
    folder: str = ""
    first: str = ""


def run(options: Options, dies: Callable[[], object] | None = None) -> Outcome:
    """Torture a store and judge it; ``dies`` is called once, when half of the jobs are done.

    Without ``folder`` the histories are deleted at the end of the run.
    """
    with place(options.folder) as folder:
        return QueueRun(options, folder, dies).go(options.limit)


class QueueRun(Run):
    """A run of workers that take, and putters."""

    act = "holdfast.testing.torture.queue_worker:work"
    options: Options
    end_s = SOON_S

    def __init__(self, options: Options, folder: Path, dies: Callable[[], object] | None) -> None:
        super().__init__(options, folder, dies)
        self.most = options.most
        self._queue = f"torture-{os.urandom(4).hex()}"
        self._queues = queues_of(self.client._ctx.store)
        self._stands: QueueRecord | None = None
        self._next = 0.0
        put = "holdfast.testing.torture.queue_worker:put"
        for number in range(options.putters):
            self.others[f"putter-{number}"] = self.subject(put, number)

    def task(self) -> Work:
        """What every process gets."""
        options = self.options
        return Work(
            *(self.store, str(self.folder), self._queue, options.seed, options.putters),
            *(options.groups, options.jobs, options.batch, options.body, options.interval),
            *(options.from_, options.ttl),
        )

    def over(self, now: float, end: float) -> bool:
        """Is all put and done? If not, and the time limit has passed, the run is given up."""
        if now >= end:
            self.troubles.append(f"not done after {self.options.limit:g} s: {self._stands}")
            return True
        if now < self._next:
            return False
        self._next = now + EVERY_S
        stands = self._stands = self._look()
        if stands is None or any(putter.ended is None for putter in self.others.values()):
            return False
        return not (stands.waiting or stands.taken)

    def longest_stop(self) -> float:
        """By the lease of a job."""
        return STOP_PART * self.options.ttl

    def half(self, now: float, end: float) -> bool:
        """Is half of the jobs done?"""
        return self._stands is not None and self._stands.done * 2 >= self.options.jobs

    def _look(self) -> QueueRecord | None:
        """How many jobs stand where; None if the store doesn't say so, soon if one is stopped."""
        within = LOOK_S if self.stopped else SOON_S
        try:
            found = run_sync(self._queues.survey(self._queue, within, exact=True))
        except StoreUnavailable:
            return None
        return found[0] if found else None

    def afterwards(self) -> Iterator[str]:
        """What the queue still has is not lost, however little of it was done."""
        asked = self._queues.jobs(self._queue, None, None, MOST, SOON_S)
        try:
            found = run_sync(asked)
        except StoreUnavailable as failure:
            yield f"it isn't known what the queue still has: {failure}"
            return
        self.recorder.there([tuple(payload.unpack(one.payload)) for one in found])

    def verdict(self) -> Verdict:
        """The judgement over the histories."""
        files, options = self.folder.glob("*.jsonl"), self.options
        return judge_files(*files, interval=options.interval, from_=options.from_)
