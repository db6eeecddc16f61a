"""The torture of locks: the choice of victims, faults of the store, and checks of what is left."""

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

#: Part of the faults whose victim is chosen among the holders.
HOLDERS_PART = 0.7
#: Maximum seconds of an inspection of the store. It must be short: a stopped worker can block the
#: store, and only this process can continue the worker.
LOOK_S = 0.05
#: Maximum length of a stop of a worker, in ttls.
STOP_PART = 3.0
#: Additional seconds of the waits at the end of a run with troubles. If the server's clock was set
#: back, an older lease lasts for up to a minute after the next request for its name.
TROUBLED_S = 65.0
#: Seconds by which an acquire may exceed its time-out, because a machine under torture is busy.
GRACE_S = 0.5


class Options(NamedTuple):
    """The options of a run. ``ttl`` in seconds; ``first``: see ``Subject``.

    ``strikes``: the faults of workers, drawn in random order; one about every ``every`` seconds.
    ``long``: the part of the leases that are at least as long as the waiter TTL; only such a lease
    can be granted by a wake-up. ``weather``: messages are lost, late and cut off; see ``Weather``.
    ``trouble``: see ``run``.
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

    ``troubles`` are injected in turn, one about every ``options.trouble`` seconds. ``dies``, called
    once in the middle, kills the store's server and starts it again.
    """
    with place(options.folder) as folder:
        return LockRun(options, folder, dies, troubles).go(options.seconds)


class _Troubles:
    """Injects the troubles into the run, in turn."""

    def __init__(self, troubles: Sequence[Trouble], options: Options) -> None:
        self._troubles = troubles
        self._every = options.trouble
        self._dice = random.Random(f"{options.seed} troubles")
        self._next = 0.0
        self._turn = 0
        #: The troubles that were injected, with counts.
        self.counts: Counter[str] = Counter()

    def strike(self, now: float, scene: Callable[[random.Random], Scene]) -> None:
        """Inject one trouble if one is due; end the troubles whose time has passed."""
        for trouble in self._troubles:
            trouble.calm(now)
        if not self._troubles or now < self._next:
            return
        self._next = now + self._dice.random() * 2 * self._every
        trouble = self._troubles[self._turn % len(self._troubles)]
        self._turn += 1
        self.counts[trouble.strike(scene(self._dice))] += 1

    def over(self) -> None:
        """End all troubles, and inject no more."""
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
        #: Additional seconds of the waits at the end, because of the troubles.
        self._late_s = TROUBLED_S if troubles else 0.0
        self.end_s += self._late_s
        self._weather: Weather | None = None
        if options.weather:
            self._weather = Weather(self.store, random.Random(f"{options.seed} network"))
        self._prefix = f"torture-{os.urandom(4).hex()}:"
        self._names = [
            f"{self._prefix}{kind}-{number}" for kind in KINDS for number in range(options.names)
        ]

    def task(self) -> Work:
        """Return the options of every process."""
        url, options = self._weather.url if self._weather else self.store, self.options
        common = options.names, options.ttl, options.long, options.seed
        return Work(url, str(self.folder), self._prefix, *common)

    def longest_stop(self) -> float:
        """Return the maximum seconds of the next stop; a long lease allows a longer stop."""
        return STOP_PART * self._ttl(self.dice.random() < self.options.long)

    def _ttl(self, long: bool) -> float:
        return max(self.options.ttl, PATIENCE_S) if long else self.options.ttl

    def beside(self, now: float) -> None:
        """Inject network faults and troubles."""
        if self._weather:
            self._weather.blow(now)
        self._befall.strike(now, self._scene)

    def calm(self) -> None:
        """End all troubles and network faults."""
        self._befall.over()
        if self._weather:
            self._weather.calm()

    def _scene(self, dice: random.Random) -> Scene:
        # A worker that still imports modules can't handle a fault.
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
        """Return only the holders with probability ``HOLDERS_PART``, otherwise all workers."""
        if self.dice.random() >= HOLDERS_PART:
            return awake
        holding = self._holding()
        return [who for who in awake if who in holding] or awake

    def _holding(self) -> set[str]:
        """Return the workers that hold a lock; none if the store doesn't answer in time."""
        look = self.client._ctx.store.inspect(self._prefix, LOOK_S)
        try:
            lines = run_sync(look)
        except StoreUnavailable:
            return set()
        except HoldfastError:
            if not self._befall.counts:
                raise
            return set()  # the store refuses a damaged name
        return {claim.owner.rpartition(":")[2] for line in lines for claim in line.holders}

    # -- afterwards ------------------------------------------------------------------------

    def afterwards(self) -> Iterator[str]:
        """Yield the claims that are left in the store, and errors in the fenced files."""
        if self._weather:
            self._weather.close()
        self.strikes += self._befall.counts
        yield from self._left_behind()
        yield from self._wrong_in_files()

    def verdict(self) -> Verdict:
        """Return the verdict on the histories."""
        return judge_files(*self.folder.glob("*.jsonl"), grace=GRACE_S)

    def weather(self) -> dict[str, int]:
        """Return the faults that were applied to messages, with counts."""
        return dict(self._weather.faults) if self._weather else {}

    def _left_behind(self) -> list[str]:
        """Wait until every claim must have expired; report the claims that are left after that."""
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
        """Return all lines of claims, except damaged lines, which the store refuses to show."""
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
        """Acquire a name: the request repairs damage, and cuts leases from a wrong clock."""
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
        """Yield the fenced files whose fences fall: evidence that doesn't need the histories."""
        for file in self.folder.glob("lock-*[0-9]"):
            fences = [int(line.split()[0]) for line in file.read_text().splitlines()]
            if fences != sorted(fences):
                yield f"fences fall in {file.name}"
