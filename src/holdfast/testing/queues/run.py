"""A run: putters and workers, those who strike the workers, and the judgement."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ...core.queue import payload
from ...core.queue.model import QueueRecord
from ...core.queue.ports import queues_of
from ...errors import StoreUnavailable
from ...runtime.blocking import boottime, run_sync
from ...sync import Client
from ..faults import Subject, SubjectGone
from ..histories import Recorder, Verdict, judge_files, tell
from .worker import Work

#: A process is ready, and ends when it is told to, within so many seconds.
SOON_S = 120.0
#: The store may be held up by one who was stopped, and it is on us to continue him.
LOOK_S = 0.05
#: A stopped worker sleeps up to so many times its ttl.
STOP_PART = 2.0
#: The queue is asked for so many jobs at the end.
MOST = 1_000_000


class Options(NamedTuple):
    """A run: where, and how many. Times are in seconds.

    ``jobs`` in ``groups`` groups, and a few in the plain lane, put by ``putters`` processes in
    batches of ``batch``; ``body``: how long an execution takes. ``interval``, ``from_``: the
    queue's ``min_interval``, and from when it counts. ``strikes``: what is done to workers, in
    turn, once in ``every`` seconds and ``most`` times; none if either is 0. ``limit``: after so
    many seconds it is given up. ``first``: see ``Subject``.
    """

    store: str = ""
    seed: int = 0
    groups: int = 20
    jobs: int = 400
    workers: int = 4
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


class Outcome(NamedTuple):
    """What came of a run. ``troubles``: what is wrong beyond the histories, in words."""

    verdict: Verdict
    strikes: dict[str, int]
    troubles: list[str]

    @property
    def good(self) -> bool:
        """Is no promise broken?"""
        return self.verdict.good and not self.troubles

    def demand(self) -> None:
        """Raise ``PromiseBroken`` or ``AssertionError`` if it isn't good."""
        self.verdict.demand()
        assert self.good, str(self)

    def __str__(self) -> str:
        struck = ", ".join(f"{one} {count}" for one, count in sorted(self.strikes.items()))
        return "\n".join([f"struck: {struck or 'nobody'}", tell(self.verdict), *self.troubles])


def run(options: Options, restart: Callable[[], object] | None = None) -> Outcome:
    """Torture a store and judge it; ``restart`` is called once, when half of the jobs are done.

    Without ``folder`` the histories go when it is over.
    """
    if options.folder:
        Path(options.folder).mkdir(parents=True, exist_ok=True)
        return _Run(options, Path(options.folder), restart).go()
    with tempfile.TemporaryDirectory(prefix="holdfast-queues-") as folder:
        return _Run(options, Path(folder), restart).go()


class _Run:
    def __init__(
        self, options: Options, folder: Path, restart: Callable[[], object] | None
    ) -> None:
        self._options = options
        self._folder = folder
        self._restart = restart
        self._dice = random.Random(f"{options.seed} nemesis")
        store = options.store or f"sqlite://{folder}/locks.db"
        name = f"torture-{os.urandom(4).hex()}"
        self._work = Work(
            *(store, str(folder), name, options.seed, options.putters, options.groups),
            *(options.jobs, options.batch, options.body, options.interval, options.from_),
            options.ttl,
        )
        self._client = Client(store, label="nemesis")
        self._queues = queues_of(self._client._ctx.store)
        self._recorder = Recorder(folder / "nemesis.jsonl", "nemesis")
        self._count = 0
        self._putters: dict[str, Subject] = {}
        self._workers: dict[str, Subject] = {}
        self._blows = itertools.cycle(options.strikes)
        #: Who was started, and hasn't said yet that it is ready.
        self._new: set[str] = set()
        #: Who is stopped, and until when.
        self._stopped: dict[str, float] = {}
        self._strikes: Counter[str] = Counter()
        self._troubles: list[str] = []

    def go(self) -> Outcome:
        try:
            for number in range(self._options.putters):
                self._putters[f"putter-{number}"] = self._subject("put", number)
            for _ in range(self._options.workers):
                self._start()
            self._torture(boottime() + self._options.limit)
            self._end()
            self._look()
        finally:
            for one in (*self._workers.values(), *self._putters.values()):
                one.__exit__()
        self._recorder.close()
        self._client.close()
        verdict = judge_files(
            *self._folder.glob("*.jsonl"),
            interval=self._options.interval,
            from_=self._options.from_,
        )
        return Outcome(verdict, dict(self._strikes), self._troubles)

    def _subject(self, act: str, number: int) -> Subject:
        face = "aio" if number % 2 else "sync"
        act = f"holdfast.testing.queues.worker:{act}"
        return Subject(act, number, face, self._work, first=self._options.first)

    def _start(self) -> None:
        self._count += 1
        who = f"worker-{self._count}"
        self._workers[who] = self._subject("work", self._count)
        self._new.add(who)

    def _torture(self, end: float) -> None:
        """Strike now and then, until all is put and done."""
        for one in (*self._putters.values(), *self._workers.values()):
            one.hear(SOON_S)  # it is ready
        self._new.clear()
        options = self._options
        strike = boottime() + options.every
        while (here := boottime()) < end:
            self._wake(here)
            if options.every and here >= strike:
                strike = here + options.every
                self._strike()
            if self._is_over():
                return
            time.sleep(0.05)
        self._troubles.append(f"not done after {options.limit:g} s: {self._stands()}")

    def _is_over(self) -> bool:
        """Is all put and done? In the middle of it, restart the store."""
        stands = self._stands()
        if stands is None:
            return False
        if self._restart is not None and stands.done * 2 >= self._options.jobs:
            restart, self._restart = self._restart, None
            self._strikes["restart"] += 1
            restart()
            return False
        if any(putter.ended is None for putter in self._putters.values()):
            return False
        return not (stands.waiting or stands.taken)

    def _stands(self) -> QueueRecord | None:
        """How many jobs stand where; None if the store doesn't say so, soon if one is stopped."""
        within = LOOK_S if self._stopped else SOON_S
        try:
            found = run_sync(self._queues.survey(self._work.queue, within, exact=True))
        except StoreUnavailable:
            return None
        return found[0] if found else None

    def _strike(self) -> None:
        """Do something to a worker that has begun, and isn't stopped."""
        self._new = {who for who in self._new if not self._ready(who)}
        awake = [who for who in self._workers if who not in self._stopped and who not in self._new]
        if not awake or sum(self._strikes.values()) >= self._options.most:
            return
        who, what = self._dice.choice(awake), next(self._blows)
        self._strikes[what] += 1
        if what == "kill":
            self._recorder.happened("dead", who)
            self._workers.pop(who).__exit__()
            self._start()
            return
        self._recorder.happened("stopped", who)
        try:
            self._workers[who].stop()
        except SubjectGone:
            self._gone(who)
            return
        span = self._dice.random() * STOP_PART * self._options.ttl
        self._stopped[who] = boottime() + span

    def _ready(self, who: str) -> bool:
        """Has it said so?"""
        try:
            return bool(self._workers[who].hear(0.0) == "ready")
        except (TimeoutError, SubjectGone):  # the end will tell of the latter
            return False

    def _wake(self, here: float) -> None:
        """Continue those whose time has come."""
        for who in [who for who, until in self._stopped.items() if until <= here]:
            del self._stopped[who]
            self._workers[who].go_on()
            self._recorder.happened("continued", who)

    def _gone(self, who: str) -> None:
        one = (self._workers | self._putters)[who]
        self._troubles.append(f"{who} ended by itself with {one.ended}")

    def _end(self) -> None:
        """Let everybody finish what they do."""
        self._wake(float("inf"))
        for one in self._workers.values():
            with contextlib.suppress(SubjectGone):
                one.say("end")
        for who, one in (self._workers | self._putters).items():
            try:
                while one.hear(SOON_S) != "bye":
                    pass
                one.end()
            except TimeoutError:
                self._troubles.append(f"{who} did not end within {SOON_S:g} s")
                one.kill()  # what it still did would not be in what is judged
            except SubjectGone:
                self._gone(who)

    def _look(self) -> None:
        """What the queue still has is not lost, however little of it was done."""
        asked = self._queues.jobs(self._work.queue, None, None, MOST, SOON_S)
        try:
            found = run_sync(asked)
        except StoreUnavailable as failure:
            self._troubles.append(f"it isn't known what the queue still has: {failure}")
            return
        self._recorder.there([tuple(payload.unpack(one.payload)) for one in found])
