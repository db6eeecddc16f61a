"""The torture of locks: who is struck, what befalls the store, and what is left behind."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ...core.model import Kind, LineRecord
from ...core.policy import PATIENCE_S
from ...errors import ConfigError, HoldfastError, StoreUnavailable
from ...runtime.blocking import boottime, run_sync
from ...sync import Lock
from ..histories import Verdict, judge_files
from .lock_worker import KINDS, Work
from .run import Outcome, Run, place
from .trouble import Scene, Trouble
from .weather import Weather

#: This part of the strikes is aimed at one who holds just then.
HOLDERS_PART = 0.7
#: The store may be held up by one who was stopped, and it is on us to continue him.
LOOK_S = 0.05
#: A stopped worker sleeps up to this many times its ttl.
STOP_PART = 3.0
#: Seconds more with troubles: a lease that was given before the server's clock was set back lasts
#: for up to a minute, once somebody asks for the name.
TROUBLED_S = 65.0
#: Machines under torture are busy: an acquire may exceed its time-out by this much, seconds.
GRACE_S = 0.5


class Options(NamedTuple):
    """A run: where, how long, how many. ``ttl`` in seconds; ``first``: see ``Subject``.

    ``strikes``: what is done to workers, one of these at a time, each as often as it stands here,
    about once in ``every`` seconds. ``long``: this part of the leases is as long as the waiter TTL,
    if ``ttl`` is less: only then a push grants. ``weather``: messages are lost, late and cut off;
    see ``Weather``. ``trouble``: see ``run``.
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


def run(
    options: Options,
    troubles: Sequence[Trouble] = (),
    dies: Callable[[], object] | None = None,
) -> Outcome:
    """Torture a store and judge it. Without ``folder`` the histories are deleted at the end.

    ``troubles`` befall it, one about every ``options.trouble`` seconds, each in its turn. ``dies``:
    its server is killed and started again, once in the middle.
    """
    with place(options.folder) as folder:
        return LockRun(options, folder, dies, troubles).go(options.seconds)


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


class LockRun(Run):
    """A run of workers that lock."""

    act = "holdfast.testing.torture.lock_worker:work"
    options: Options

    def __init__(
        self,
        options: Options,
        folder: Path,
        dies: Callable[[], object] | None,
        troubles: Sequence[Trouble],
    ) -> None:
        super().__init__(options, folder, dies)
        self._befall = _Troubles(troubles, options)
        #: What lasts longer because of them.
        self._late_s = TROUBLED_S if troubles else 0.0
        self.end_s += self._late_s
        self._weather: Weather | None = None
        if options.weather:
            self._weather = Weather(self.store, random.Random(f"{options.seed} weather"))
        self._prefix = f"torture-{os.urandom(4).hex()}:"
        self._names = [
            f"{self._prefix}{kind}-{number}" for kind in KINDS for number in range(options.names)
        ]

    def task(self) -> Work:
        """What every process gets."""
        url, options = self._weather.url if self._weather else self.store, self.options
        common = options.names, options.ttl, options.long, options.seed
        return Work(url, str(self.folder), self._prefix, *common)

    def longest_stop(self) -> float:
        """By the leases that it may have."""
        return STOP_PART * self._ttl(self.dice.random() < self.options.long)

    def _ttl(self, long: bool) -> float:
        return max(self.options.ttl, PATIENCE_S) if long else self.options.ttl

    def beside(self, now: float) -> None:
        """Weather and troubles."""
        if self._weather:
            self._weather.blow(now)
        self._befall.strike(now, self._scene)

    def calm(self) -> None:
        """Nothing befalls it any more."""
        self._befall.over()
        if self._weather:
            self._weather.calm()

    def _scene(self, dice: random.Random) -> Scene:
        # A worker that still imports modules can do nothing for itself.
        at_work = [who for who in self.workers if (self.folder / f"{who}.jsonl").exists()]
        pids = [self.workers[who].pid for who in at_work]
        return Scene(
            dice,
            self._names,
            pids,
            partial(self.recorder.happened, "damaged"),
            partial(self.recorder.happened, "forgotten"),
        )

    def aim(self, awake: list[str]) -> list[str]:
        """Workers that hold something, as often as not."""
        if self.dice.random() >= HOLDERS_PART:
            return awake
        holding = self._holding()
        return [who for who in awake if who in holding] or awake

    def _holding(self) -> set[str]:
        """The workers that hold something; none if the store doesn't say so soon."""
        look = self.client._ctx.store.inspect(self._prefix, LOOK_S)
        try:
            lines = run_sync(look)
        except StoreUnavailable:
            return set()
        except HoldfastError:
            if not self._befall.counts:
                raise
            return set()  # what was damaged is refused
        return {claim.owner.rpartition(":")[2] for line in lines for claim in line.holders}

    # -- afterwards ------------------------------------------------------------------------

    def afterwards(self) -> Iterator[str]:
        """What is left in the store, and what is wrong in the guarded files."""
        if self._weather:
            self._weather.close()
        self.strikes += self._befall.counts
        yield from self._left_behind()
        yield from self._wrong_in_files()

    def verdict(self) -> Verdict:
        """The judgement over the histories."""
        return judge_files(*self.folder.glob("*.jsonl"), grace=GRACE_S)

    def weather(self) -> dict[str, int]:
        """What happened to messages."""
        return dict(self._weather.faults) if self._weather else {}

    def _left_behind(self) -> list[str]:
        """Claims that are still in the store when the dead have had their time."""
        end = boottime() + self._ttl(self.options.long > 0) + PATIENCE_S + 1.0
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
            return self.client.inspect(self._prefix)
        except ConfigError:
            if not self._befall.counts:
                raise
        found = []
        for name in self._names:
            with contextlib.suppress(ConfigError):
                found += self.client.inspect(name, exact=True)
        return found

    def _ask_for(self, line: LineRecord) -> None:
        """What was damaged, or granted by another clock, is put right when the name is acquired."""
        client, name = self.client, line.name
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
        for file in self.folder.glob("lock-*[0-9]"):
            fences = [int(line.split()[0]) for line in file.read_text().splitlines()]
            if fences != sorted(fences):
                yield f"fences fall in {file.name}"
