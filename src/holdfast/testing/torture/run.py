"""The common part of a run: it starts processes, injects faults into them, and judges the result.

Locks, serial queues and refresh guards differ in the work of their processes, in the end of a run,
and in the checks afterwards. Subclasses of `Run` define these.
"""

from __future__ import annotations

import contextlib
import math
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ...runtime.blocking import boottime
from ...sync import Client
from ..faults import Subject, SubjectGone
from ..histories import Recorder, Verdict, judge_files, tell

#: Maximum seconds until a new process is ready; on a busy machine the process waits for a
#: processor.
START_S = 180.0


class Outcome(NamedTuple):
    """The result of a run.

    ``strikes``: the faults of workers, with counts. ``troubles``: texts of errors that are not in
    the histories. ``weather``: the faults that were applied to messages, with counts.
    """

    verdict: Verdict
    strikes: dict[str, int]
    troubles: list[str]
    weather: dict[str, int]

    @property
    def good(self) -> bool:
        """True if all promises were kept and there was no other error."""
        return self.verdict.good and not self.troubles

    def demand(self, ignored: Collection[str] = ()) -> None:
        """Raise ``PromiseBroken`` or ``AssertionError`` if the outcome isn't good.

        ``ignored``: promises that don't count here, for example bounds on time in a short run.
        """
        self.verdict.demand(ignored)
        assert not self.troubles, str(self)

    def __str__(self) -> str:
        lines = [f"faults: {_counts(self.strikes) or 'none'}"]
        if self.weather:
            lines.append(f"messages: {_counts(self.weather)}")
        return "\n".join([*lines, tell(self.verdict), *self.troubles])


def _counts(what: dict[str, int]) -> str:
    return ", ".join(f"{one} {count}" for one, count in sorted(what.items()))


class Run:
    """The base of runs. ``dies``, called once in the middle, kills the server and starts it again.

    A subclass defines ``act``, the function that its workers execute; the function gets the number
    of the worker, a face, and the result of ``task``. ``options`` needs the fields ``store``,
    ``seed``, ``processes``, ``folder``, ``first``, ``strikes`` and ``every``.
    """

    act = ""
    #: Maximum seconds from the message to end until the next message of a worker.
    end_s = 30.0
    #: Maximum number of faults of workers.
    most: float = math.inf

    def __init__(self, options: Any, folder: Path, dies: Callable[[], object] | None) -> None:
        self.options = options
        self.folder = folder
        self.dice = random.Random(f"{options.seed} nemesis")
        self.store: str = options.store or f"sqlite://{folder}/locks.db"
        self.client = Client(self.store, label="nemesis")
        self.recorder = Recorder(folder / "nemesis.jsonl", "nemesis")
        self.workers: dict[str, Subject] = {}
        #: Processes without faults, which end by themselves.
        self.others: dict[str, Subject] = {}
        #: The workers that are stopped, each with the time at which it continues.
        self.stopped: dict[str, float] = {}
        self.strikes: Counter[str] = Counter()
        self.troubles: list[str] = []
        self._dies = dies
        #: Workers that were started, and have not yet reported that they are ready.
        self._new: set[str] = set()
        self._count = 0
        self._pack: list[str] = []

    # -- methods that a product may override -------------------------------------------------

    def task(self) -> Any:
        """Return the options of every process."""

    def over(self, now: float, end: float) -> bool:
        """Return True if the run must end now."""
        return now >= end

    def half(self, now: float, end: float) -> bool:
        """Return True if half of the run has passed."""
        seconds: float = self.options.seconds
        return now >= end - seconds / 2

    def beside(self, now: float) -> None:
        """Inject faults of other kinds, such as network faults, during the run."""

    def calm(self) -> None:
        """End the faults that ``beside`` has injected."""

    def longest_stop(self) -> float:
        """Return the maximum seconds for which a worker is stopped."""
        return 1.5

    def aim(self, awake: list[str]) -> list[str]:
        """Return the workers among which the next victim is drawn."""
        return awake

    def afterwards(self) -> Iterator[str]:
        """Yield errors that are not in the histories; called when all processes have ended."""
        return iter(())

    def verdict(self) -> Verdict:
        """Return the verdict on the histories."""
        return judge_files(*self.folder.glob("*.jsonl"))

    def weather(self) -> dict[str, int]:
        """Return the faults that were applied to messages, with counts."""
        return {}

    # -- the run -----------------------------------------------------------------------------

    def go(self, seconds: float) -> Outcome:
        """Run for at most ``seconds``, and judge the run."""
        try:
            for _ in range(self.options.processes):
                self._start()
            for one in (*self.others.values(), *self.workers.values()):
                one.hear(START_S)  # it is ready
            self._new.clear()
            self._torture(boottime() + seconds)
            self._end()
        finally:
            self.calm()
            for one in (*self.others.values(), *self.workers.values()):
                one.__exit__()
        self.troubles += self.afterwards()
        self.recorder.close()
        self.client.close()
        return Outcome(self.verdict(), dict(self.strikes), self.troubles, self.weather())

    def subject(self, act: str, number: int) -> Subject:
        """Start a new process; odd numbers use the face for asyncio."""
        face = "aio" if number % 2 else "sync"
        return Subject(act, number, face, self.task(), first=self.options.first)

    def _start(self) -> None:
        self._count += 1
        who = f"worker-{self._count}"
        self.workers[who] = self.subject(self.act, self._count)
        self._new.add(who)

    def _torture(self, end: float) -> None:
        every = self.options.every
        strike = boottime() + self.dice.random() * every
        while not self.over(now := boottime(), end):
            self._miss()
            self._wake(now)
            self.beside(now)
            if self._dies is not None and self.half(now, end):
                dies, self._dies = self._dies, None
                self.strikes["restart"] += 1
                dies()
            elif every and now >= strike:
                strike = now + self.dice.random() * 2 * every
                self._strike()
            time.sleep(0.005)

    def _strike(self) -> None:
        """Inject a fault into a worker that is ready and not stopped."""
        self._new = {who for who in self._new if not self._ready(who)}
        awake = [who for who in self.workers if who not in self.stopped and who not in self._new]
        if not awake or sum(self.strikes.values()) >= self.most:
            return
        who, what = self.dice.choice(self.aim(awake)), self._next_fault()
        self.strikes[what] += 1
        try:
            self._do(what, who)
        except SubjectGone:
            self._gone(who)

    def _next_fault(self) -> str:
        """Return the next fault: each listed fault comes once, in random order, before repeats."""
        if not self._pack:
            self._pack = [*self.options.strikes]
            self.dice.shuffle(self._pack)
        return self._pack.pop()

    def _do(self, what: str, who: str) -> None:
        worker = self.workers[who]
        if what == "kill":
            self.recorder.happened("dead", who)
            self.workers.pop(who).__exit__()
            self._start()
        elif what == "stop":
            self.recorder.happened("stopped", who)
            worker.stop()
            self.stopped[who] = boottime() + self.dice.random() * self.longest_stop()
        else:
            worker.say(what)

    def _ready(self, who: str) -> bool:
        """Return True if this worker has reported that it is ready."""
        try:
            return bool(self.workers[who].hear(0.0) == "ready")
        except (KeyError, TimeoutError, SubjectGone):  # `_miss` soon finds an ended worker
            return False

    def _miss(self) -> None:
        """Find workers that ended by themselves, because a later kill would hide such an end."""
        for who in [who for who, one in self.workers.items() if one.ended is not None]:
            self._gone(who)

    def _gone(self, who: str) -> None:
        """Report a worker that ended by itself, and start another one in its place."""
        worker = self.workers.pop(who)
        self.stopped.pop(who, None)
        self._new.discard(who)
        self.recorder.happened("dead", who)
        self.troubles.append(f"{who} ended by itself with {worker.ended}")
        worker.__exit__()
        self._start()

    def _wake(self, now: float) -> None:
        """Continue the stopped workers whose time has passed."""
        for who in [who for who, until in self.stopped.items() if until <= now]:
            del self.stopped[who]
            self.workers[who].go_on()
            self.recorder.happened("continued", who)

    def _end(self) -> None:
        """End all processes, after they have finished their current work."""
        self._wake(math.inf)
        self.calm()
        for one in self.workers.values():
            with contextlib.suppress(SubjectGone):
                one.say("end")
        for who, one in (self.workers | self.others).items():
            try:
                while one.hear(self.end_s) != "bye":
                    pass
                one.end()
            except TimeoutError:
                self.troubles.append(f"{who} did not end within {self.end_s:g} s")
                one.kill()  # the judged histories would not contain its later actions
            except SubjectGone:
                self.troubles.append(f"{who} ended by itself with {one.ended}")


@contextlib.contextmanager
def place(folder: str) -> Generator[Path]:
    """Yield the folder for the histories; without a name, a temporary one that is deleted."""
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-torture-") as made:
        yield Path(made)
