"""A run: the workers, those who strike them, and the judgement."""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ...core.model import Kind, LineRecord
from ...core.policy import PATIENCE_S
from ...errors import ConfigError, HoldfastError, StoreUnavailable
from ...runtime.blocking import boottime, run_sync
from ...sync import Client, Lock
from ..faults import Subject, SubjectGone
from ..histories import Recorder, Verdict, judge_files, tell
from .trouble import Scene, Trouble
from .weather import Weather
from .worker import KINDS, Work

#: So many strikes are aimed at one who holds just then.
HOLDERS_PART = 0.7
#: The store may be held up by one who was stopped, and it is on us to continue him.
LOOK_S = 0.05
#: A stopped worker sleeps up to so many times its ttl.
STOP_PART = 3.0
#: A process of Python needs some CPU before it is ready, which a busy machine may be late to give.
START_S = 180.0
#: When all is over, a worker may take so many seconds to finish what it does.
END_S = 30.0
#: Seconds more with troubles: a lease that was given before the server's clock was set back lasts
#: for up to a minute, once somebody asks for the name.
TROUBLED_S = 65.0
#: Machines under torture are busy: an acquire may exceed its time-out by so many seconds.
GRACE_S = 0.5


class Options(NamedTuple):
    """A run: where, how long, how many. ``ttl`` in seconds; ``first``: see ``Subject``.

    ``strikes``: what is done to workers, one of these at a time, each as often as it stands here,
    about once in ``every`` seconds. ``long``: this part of the leases is as long as a waiter's
    patience, if ``ttl`` is less: only then a push grants. ``weather``: messages are lost, late and
    cut off; see ``Weather``. ``trouble``: see ``run``.
    """

    store: str = ""
    seconds: float = 30.0
    seed: int = 0
    processes: int = 6
    names: int = 2
    ttl: float = 0.5
    folder: str = ""
    first: str = ""
    strikes: tuple[str, ...] = ("kill", "stop", "stop", "stop", "fork", "fork")
    every: float = 0.15
    long: float = 0.0
    weather: bool = False
    trouble: float = 0.5


class Outcome(NamedTuple):
    """What came of a run. ``troubles``: what is wrong beyond the histories, in words.

    ``weather``: what happened to messages, and how often.
    """

    verdict: Verdict
    strikes: dict[str, int]
    troubles: list[str]
    weather: dict[str, int]

    @property
    def good(self) -> bool:
        """Is no promise broken?"""
        return self.verdict.good and not self.troubles

    def demand(self, ignored: Collection[str] = ()) -> None:
        """Raise ``PromiseBroken`` or ``AssertionError`` if it isn't good.

        ``ignored``: promises that don't count here, as bounds on time in a short run.
        """
        self.verdict.demand(ignored)
        assert not self.troubles, str(self)

    def __str__(self) -> str:
        lines = [f"struck: {_counts(self.strikes)}"]
        if self.weather:
            lines.append(f"messages: {_counts(self.weather)}")
        return "\n".join([*lines, tell(self.verdict), *self.troubles])


def _counts(what: dict[str, int]) -> str:
    return ", ".join(f"{one} {count}" for one, count in sorted(what.items()))


def run(options: Options, troubles: Sequence[Trouble] = ()) -> Outcome:
    """Torture a store and judge it. Without ``folder`` the histories go when it is over.

    ``troubles`` befall it, one about every ``options.trouble`` seconds, each in its turn.
    """
    if options.folder:
        Path(options.folder).mkdir(parents=True, exist_ok=True)
        return _Run(options, Path(options.folder), troubles).go()
    with tempfile.TemporaryDirectory(prefix="holdfast-torture-") as folder:
        return _Run(options, Path(folder), troubles).go()


class _Troubles:
    """Lets each trouble befall the run in its turn."""

    def __init__(self, troubles: Sequence[Trouble], options: Options) -> None:
        self._troubles = troubles
        self._every = options.trouble
        self._dice = random.Random(f"{options.seed} troubles")
        self._next = 0.0
        self._turn = 0
        #: What befell it, and how often.
        self.counts: Counter[str] = Counter()

    def strike(self, now: float, scene: Callable[[random.Random], Scene]) -> None:
        """Do one thing if it is time for it; end what has lasted long enough."""
        for trouble in self._troubles:
            trouble.calm(now)
        if not self._troubles or now < self._next:
            return
        self._next = now + self._dice.random() * 2 * self._every
        trouble = self._troubles[self._turn % len(self._troubles)]
        self._turn += 1
        self.counts[trouble.strike(scene(self._dice))] += 1

    def over(self) -> None:
        """Nothing befalls it any more."""
        for trouble in self._troubles:
            trouble.calm(float("inf"))
        self._troubles = ()


class _Run:
    def __init__(self, options: Options, folder: Path, troubles: Sequence[Trouble]) -> None:
        self._options = options
        self._befall = _Troubles(troubles, options)
        #: What lasts longer because of them.
        self._late_s = TROUBLED_S if troubles else 0.0
        self._folder = folder
        self._dice = random.Random(f"{options.seed} nemesis")
        self._store = options.store or f"sqlite://{folder}/locks.db"
        self._weather: Weather | None = None
        if options.weather:
            self._weather = Weather(self._store, random.Random(f"{options.seed} weather"))
        self._prefix = f"torture-{os.urandom(4).hex()}:"
        self._names = [
            f"{self._prefix}{kind}-{number}" for kind in KINDS for number in range(options.names)
        ]
        self._client = Client(self._store, label="nemesis")
        self._recorder = Recorder(folder / "nemesis.jsonl", "nemesis")
        self._count = 0
        self._workers: dict[str, Subject] = {}
        #: Who is stopped, and until when.
        self._stopped: dict[str, float] = {}
        self._strikes: Counter[str] = Counter()
        self._pack: list[str] = []
        self._troubles: list[str] = []

    def go(self) -> Outcome:
        try:
            for _ in range(self._options.processes):
                self._start()
            for worker in self._workers.values():
                worker.hear(START_S)  # it is ready
            end = boottime() + self._options.seconds
            while (now := boottime()) < end:
                self._strike()
                pause = self._dice.random() * 2 * self._options.every
                while boottime() < min(now + pause, end):
                    self._miss()
                    self._wake(boottime())
                    if self._weather:
                        self._weather.blow(boottime())
                    self._befall.strike(boottime(), self._scene)
                    time.sleep(0.005)
            self._end()
        finally:
            self._befall.over()
            for worker in self._workers.values():
                worker.__exit__()
            if self._weather:
                self._weather.close()
        self._recorder.close()
        self._troubles += [*self._left_behind(), *self._wrong_in_files()]
        self._client.close()
        histories = self._folder.glob("*.jsonl")
        verdict = judge_files(*histories, grace=GRACE_S)
        faults = dict(self._weather.faults) if self._weather else {}
        strikes = dict(self._strikes + self._befall.counts)
        return Outcome(verdict, strikes, self._troubles, faults)

    def _scene(self, dice: random.Random) -> Scene:
        # A worker that still imports modules can do nothing for itself.
        at_work = [who for who in self._workers if (self._folder / f"{who}.jsonl").exists()]
        pids = [self._workers[who].pid for who in at_work]
        return Scene(
            dice,
            self._names,
            pids,
            partial(self._recorder.happened, "damaged"),
            partial(self._recorder.happened, "forgotten"),
        )

    def _start(self) -> None:
        self._count += 1
        options = self._options
        common = Work(
            self._weather.url if self._weather else self._store,
            str(self._folder),
            self._prefix,
            options.names,
            options.ttl,
            options.long,
            options.seed,
        )
        face = "aio" if self._count % 2 else "sync"
        act = "holdfast.testing.torture.worker:work"
        worker = Subject(act, self._count, face, common, first=options.first)
        self._workers[f"worker-{self._count}"] = worker

    # -- striking --------------------------------------------------------------------------

    def _strike(self) -> None:
        """Do something to somebody who isn't stopped: to one who holds, as often as not."""
        awake = [who for who in self._workers if who not in self._stopped]
        if self._dice.random() < HOLDERS_PART:
            holding = self._holding()
            awake = [who for who in awake if who in holding] or awake
        if not awake:
            return
        who = self._dice.choice(awake)
        what = self._next_strike()
        self._strikes[what] += 1
        try:
            self._do(what, who)
        except SubjectGone:
            self._gone(who)

    def _miss(self) -> None:
        """See who has ended by itself, before a strike hides it."""
        for who in [who for who, one in self._workers.items() if one.process.poll() is not None]:
            self._gone(who)

    def _gone(self, who: str) -> None:
        """Tell of one who has ended by itself; another takes its place."""
        worker = self._workers.pop(who)
        self._stopped.pop(who, None)
        self._recorder.happened("dead", who)
        self._troubles.append(f"{who} ended by itself with {worker.ended}")
        worker.__exit__()
        self._start()

    def _next_strike(self) -> str:
        """As from a pack of cards: each comes in its turn, in any order."""
        if not self._pack:
            self._pack = [*self._options.strikes]
            self._dice.shuffle(self._pack)
        return self._pack.pop()

    def _do(self, what: str, who: str) -> None:
        worker = self._workers[who]
        if what == "kill":
            self._recorder.happened("dead", who)
            self._workers.pop(who).__exit__()
            self._start()
        elif what == "stop":
            self._recorder.happened("stopped", who)
            worker.stop()
            long = self._dice.random() < self._options.long
            span = self._dice.random() * STOP_PART * self._ttl(long)
            self._stopped[who] = boottime() + span
        else:
            worker.say("fork")

    def _ttl(self, long: bool) -> float:
        return max(self._options.ttl, PATIENCE_S) if long else self._options.ttl

    def _holding(self) -> set[str]:
        """The workers that hold something; none if the store doesn't say so soon."""
        look = self._client._ctx.store.inspect(self._prefix, LOOK_S)
        try:
            lines = run_sync(look)
        except StoreUnavailable:
            return set()
        except HoldfastError:
            if not self._befall.counts:
                raise
            return set()  # what was damaged is refused
        return {claim.owner.rpartition(":")[2] for line in lines for claim in line.holders}

    def _wake(self, now: float) -> None:
        """Continue those whose time has come."""
        for who in [who for who, until in self._stopped.items() if until <= now]:
            del self._stopped[who]
            self._workers[who].go_on()
            self._recorder.happened("continued", who)

    def _end(self) -> None:
        """Let everybody finish what they do."""
        self._wake(float("inf"))
        self._befall.over()
        if self._weather:
            self._weather.calm()
        for worker in self._workers.values():
            worker.say("end")
        for who, worker in self._workers.items():
            try:
                while worker.hear(END_S + self._late_s) != "bye":
                    pass
                worker.end()
            except TimeoutError:
                self._troubles.append(f"{who} did not end within {END_S + self._late_s:g} s")
            except SubjectGone:
                self._troubles.append(f"{who} ended by itself with {worker.ended}")

    # -- afterwards ------------------------------------------------------------------------

    def _left_behind(self) -> list[str]:
        """Claims that are still in the store when the dead have had their time."""
        end = boottime() + self._ttl(self._options.long > 0) + PATIENCE_S + 1.0
        end += self._late_s
        while lines := self._lines():
            if boottime() > end:
                return [f"left in the store: {line}" for line in lines]
            if self._late_s:
                for line in lines:
                    self._ask_for(line)
            time.sleep(0.1)
        return []

    def _lines(self) -> list[LineRecord]:
        """All lines but those that were damaged, and are refused."""
        try:
            return self._client.inspect(self._prefix)
        except ConfigError:
            if not self._befall.counts:
                raise
        found = []
        for name in self._names:
            with contextlib.suppress(ConfigError):
                found += self._client.inspect(name, exact=True)
        return found

    def _ask_for(self, line: LineRecord) -> None:
        """What was damaged, or granted by another clock, is put right for those who ask."""
        client, name = self._client, line.name
        lock: Lock = client.lock(name)
        if line.kind == Kind.RWLOCK:
            lock = client.rwlock(name).write
        elif line.kind == Kind.SEMAPHORE:
            lock = client.semaphore(name, line.capacity)
        with contextlib.suppress(HoldfastError):
            if hold := lock.acquire(timeout=0):
                hold.release()

    def _wrong_in_files(self) -> Iterator[str]:
        """The guarded files are the last witness: in the order of their fences, all there."""
        for file in self._folder.glob("lock-*[0-9]"):
            fences = [int(line.split()[0]) for line in file.read_text().splitlines()]
            if fences != sorted(fences):
                yield f"fences fall in {file.name}"
