"""The torture of serial queues: processes put and take jobs until all jobs are done."""

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

#: Maximum seconds of a request to the store.
SOON_S = 120.0
#: Maximum seconds of a request while a worker is stopped, because that worker can block the store.
LOOK_S = 0.05
#: Maximum length of a stop of a worker, in ttls.
STOP_PART = 2.0
#: Maximum number of jobs that are listed at the end; seconds between two reads of the counts.
MOST, EVERY_S = 1_000_000, 0.05


class Options(NamedTuple):
    """The options of a run. Times are in seconds.

    ``putters`` processes put ``jobs`` in ``groups`` groups, and a few ungrouped jobs, in batches of
    ``batch``. ``body``: mean time of an execution. ``interval``, ``interval_from``: the
    ``min_interval`` of the queue, and the event from which it counts. ``strikes``: the faults of
    workers, drawn in random order; one about every ``every`` seconds and at most ``most``, none if
    either is 0. ``limit``: the run is given up after this time. ``first``: see ``Subject``.
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
    interval_from: str = "ack"
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
    """A run of workers that take jobs, and of putters."""

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
        """Return the options of every process."""
        options = self.options
        return Work(
            *(self.store, str(self.folder), self._queue, options.seed, options.putters),
            *(options.groups, options.jobs, options.batch, options.body, options.interval),
            *(options.interval_from, options.ttl),
        )

    def over(self, now: float, end: float) -> bool:
        """Return True if all jobs are put and done, or if the limit has passed (an error)."""
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
        """Return the maximum seconds of a stop, which can outlive the lease of a delivery."""
        return STOP_PART * self.options.ttl

    def half(self, now: float, end: float) -> bool:
        """Return True if half of the jobs are done."""
        return self._stands is not None and self._stands.done * 2 >= self.options.jobs

    def _look(self) -> QueueRecord | None:
        """Return the counts of the queue; None if there is no queue, or no answer in time."""
        within = LOOK_S if self.stopped else SOON_S
        try:
            found = run_sync(self._queues.survey(self._queue, within, exact=True))
        except StoreUnavailable:
            return None
        return found[0] if found else None

    def afterwards(self) -> Iterator[str]:
        """Record the jobs that are still in the queue: these are not done, but not lost either."""
        asked = self._queues.jobs(self._queue, None, None, MOST, SOON_S)
        try:
            found = run_sync(asked)
        except StoreUnavailable as failure:
            yield f"it isn't known what the queue still has: {failure}"
            return
        self.recorder.there([tuple(payload.unpack(one.payload)) for one in found])

    def verdict(self) -> Verdict:
        """Return the verdict on the histories."""
        files, options = self.folder.glob("*.jsonl"), self.options
        return judge_files(*files, interval=options.interval, interval_from=options.interval_from)
