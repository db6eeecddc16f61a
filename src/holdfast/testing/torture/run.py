"""A run: processes that work, faults that strike them, and a verdict. Each product adds its own.

Locks, serial queues and refresh guards differ in what their processes do, in when a run ends, and
in what is looked at afterwards. Everything else is here.
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

#: A process of Python needs some CPU before it is ready, which a busy machine may be late to give.
START_S = 180.0


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
        lines = [f"struck: {_counts(self.strikes) or 'nobody'}"]
        if self.weather:
            lines.append(f"messages: {_counts(self.weather)}")
        return "\n".join([*lines, tell(self.verdict), *self.troubles])


def _counts(what: dict[str, int]) -> str:
    return ", ".join(f"{one} {count}" for one, count in sorted(what.items()))


class Run:
    """A run as such. ``dies``: the server is killed and started again, once in the middle.

    A product has ``act``, the function that its workers do with their number, a face and ``task``;
    ``options`` with ``store``, ``seed``, ``processes``, ``folder``, ``first``, ``strikes`` and
    ``every``; and whatever of the methods it wants otherwise.
    """

    act = ""
    #: Seconds that a worker may take, at the end of the run, to finish what it does.
    end_s = 30.0
    #: Maximum number of strikes.
    most: float = math.inf

    def __init__(self, options: Any, folder: Path, dies: Callable[[], object] | None) -> None:
        self.options = options
        self.folder = folder
        self.dice = random.Random(f"{options.seed} nemesis")
        self.store: str = options.store or f"sqlite://{folder}/locks.db"
        self.client = Client(self.store, label="nemesis")
        self.recorder = Recorder(folder / "nemesis.jsonl", "nemesis")
        self.workers: dict[str, Subject] = {}
        #: Those who are never struck, and end by themselves.
        self.others: dict[str, Subject] = {}
        #: The workers that are stopped, and until when.
        self.stopped: dict[str, float] = {}
        self.strikes: Counter[str] = Counter()
        self.troubles: list[str] = []
        self._dies = dies
        #: Those that were started, and haven't said yet that they are ready.
        self._new: set[str] = set()
        self._count = 0
        self._pack: list[str] = []

    # -- what a product may have otherwise ---------------------------------------------------

    def task(self) -> Any:
        """What every process gets."""

    def over(self, now: float, end: float) -> bool:
        """Is it over?"""
        return now >= end

    def half(self, now: float, end: float) -> bool:
        """Is half of it over?"""
        seconds: float = self.options.seconds
        return now >= end - seconds / 2

    def beside(self, now: float) -> None:
        """What else befalls it meanwhile."""

    def calm(self) -> None:
        """Nothing befalls it any more."""

    def longest_stop(self) -> float:
        """A stopped worker sleeps up to this long, seconds."""
        return 1.5

    def aim(self, awake: list[str]) -> list[str]:
        """Those of whom one is struck."""
        return awake

    def afterwards(self) -> Iterator[str]:
        """What is wrong beyond the histories, when all processes are gone."""
        return iter(())

    def verdict(self) -> Verdict:
        """The judgement over the histories."""
        return judge_files(*self.folder.glob("*.jsonl"))

    def weather(self) -> dict[str, int]:
        """What happened to messages."""
        return {}

    # -- the run -----------------------------------------------------------------------------

    def go(self, seconds: float) -> Outcome:
        """Let it last for this time at most, and judge it."""
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
        """A new process; every second one has the face for asyncio."""
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
        """Do something to a worker that has begun, and isn't stopped."""
        self._new = {who for who in self._new if not self._ready(who)}
        awake = [who for who in self.workers if who not in self.stopped and who not in self._new]
        if not awake or sum(self.strikes.values()) >= self.most:
            return
        who, what = self.dice.choice(self.aim(awake)), self._next_strike()
        self.strikes[what] += 1
        try:
            self._do(what, who)
        except SubjectGone:
            self._gone(who)

    def _next_strike(self) -> str:
        """As from a pack of cards: each comes in its turn, in any order."""
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
        """Has it said so?"""
        try:
            return bool(self.workers[who].hear(0.0) == "ready")
        except (KeyError, TimeoutError, SubjectGone):  # who has ended is missed soon
            return False

    def _miss(self) -> None:
        """See who has ended by itself, before a strike hides it."""
        for who in [who for who, one in self.workers.items() if one.ended is not None]:
            self._gone(who)

    def _gone(self, who: str) -> None:
        """Tell of one who has ended by itself; another takes its place."""
        worker = self.workers.pop(who)
        self.stopped.pop(who, None)
        self._new.discard(who)
        self.recorder.happened("dead", who)
        self.troubles.append(f"{who} ended by itself with {worker.ended}")
        worker.__exit__()
        self._start()

    def _wake(self, now: float) -> None:
        """Continue those whose time has come."""
        for who in [who for who, until in self.stopped.items() if until <= now]:
            del self.stopped[who]
            self.workers[who].go_on()
            self.recorder.happened("continued", who)

    def _end(self) -> None:
        """Let everybody finish what they do."""
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
                one.kill()  # what it still did would not be in what is judged
            except SubjectGone:
                self.troubles.append(f"{who} ended by itself with {one.ended}")


@contextlib.contextmanager
def place(folder: str) -> Generator[Path]:
    """This folder, for the histories; without a name they are deleted at the end."""
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-torture-") as made:
        yield Path(made)
