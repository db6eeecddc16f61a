"""Virtual time and a seeded scheduler: tasks, futures, timers, processes that pause and die.

One Python thread runs everything. The seeded generator makes every choice of order that a real
system leaves open: which of the runnable tasks takes its next step, how long a message travels.
So the same seed always gives the same history.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Cancelled(BaseException):
    """The task was cancelled from outside (like ``asyncio.CancelledError``)."""


class Fut(Generic[T]):
    """A value that arrives later, like a future of asyncio; tasks await it."""

    __slots__ = ("done", "failure", "value", "waiters", "world")

    def __init__(self, world: World) -> None:
        self.world = world
        self.done = False
        self.value: Any = None
        self.failure: BaseException | None = None
        self.waiters: list[Task] = []

    def set(self, value: T) -> None:
        """Set the value, and wake the tasks that wait for it."""
        if not self.done:
            self.done, self.value = True, value
            self._wake()

    def fail(self, failure: BaseException) -> None:
        """Set the failure, and wake the tasks that wait for it."""
        if not self.done:
            self.done, self.failure = True, failure
            self._wake()

    def _wake(self) -> None:
        for task in self.waiters:
            self.world.ready(task)
        self.waiters.clear()

    def __await__(self) -> Generator[Fut[T], None, T]:
        while not self.done:
            yield self
        if self.failure is not None:
            raise self.failure
        value: T = self.value
        return value


class Process:
    """A process. Its tasks stop and die with it, and share its clock, which runs at ``rate``."""

    def __init__(self, world: World, pid: int, rate: float, threads: bool) -> None:
        self.world = world
        self.pid = pid
        self.rate = rate
        self.offset = world.rng.uniform(0, 1000)
        self.threads = threads
        self.alive = True
        self.paused = 0
        self.epoch = 0
        self.frozen: list[Task] = []
        #: Total virtual seconds for which the process was stopped.
        self.stopped_for = 0.0
        self.wall_jump = 0.0

    def now(self) -> float:
        """Return the time of the monotonic clock of this process."""
        return self.offset + self.world.time * self.rate

    def wall(self) -> float:
        """Return the time of the wall clock, which jumps. Only planted bugs read it."""
        return self.now() + self.wall_jump

    def pause(self) -> None:
        """Stop the process, as SIGSTOP does: none of its tasks runs, but its clock continues."""
        self.paused += 1

    def resume(self) -> None:
        """Continue the process, as SIGCONT does."""
        self.paused -= 1
        if not self.paused:
            for task in self.frozen:
                self.world.ready(task)
            self.frozen.clear()

    def kill(self) -> None:
        """Kill the process, as SIGKILL does: nothing is cleaned up."""
        self.alive = False

    def __repr__(self) -> str:
        return f"p{self.pid}"


class Task:
    """A coroutine that runs in a process."""

    __slots__ = (
        "coro", "done", "name", "nobody", "process", "queued", "quiet", "throw", "waits_on",
    )  # fmt: skip

    def __init__(self, process: Process, coro: Coroutine[Any, Any, Any], name: str) -> None:
        self.process = process
        self.coro = coro
        self.name = name
        self.throw: BaseException | None = None
        self.done: Fut[Any] = Fut(process.world)
        self.waits_on: Fut[Any] | None = None
        self.queued = False
        #: True if another task awaits this task and handles its exception.
        self.quiet = False
        #: True if the task belongs to no caller, so that no fault interrupts it.
        self.nobody = False


class World:
    """The scheduler. ``step`` takes one step of one task, or lets time pass to the next timer."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._pick = self.rng.random
        self.time = 0.0
        self.steps = 0
        self.current: Task | None = None
        self.processes: list[Process] = []
        self.tasks: list[Task] = []
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._tie = itertools.count()
        #: Exceptions of tasks that are not ``quiet``: bugs of the code under test.
        self.crashes: list[tuple[Task, BaseException]] = []

    def process(self, threads: bool, rate: float = 1.0) -> Process:
        """Start a new process."""
        one = Process(self, len(self.processes) + 1, rate, threads)
        self.processes.append(one)
        return one

    def spawn(self, process: Process, coro: Coroutine[Any, Any, Any], name: str) -> Task:
        """Start a task."""
        task = Task(process, coro, name)
        self.tasks.append(task)
        self.ready(task)
        return task

    def ready(self, task: Task) -> None:
        """Let the task take a step soon."""
        if not task.queued and not task.done.done:
            task.queued = True
            self._ready.append(task)

    def at(self, time: float, call: Callable[[], None]) -> None:
        """Call ``call`` at this virtual time."""
        heapq.heappush(self._timers, (max(time, self.time), next(self._tie), call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call ``call`` after this virtual time."""
        self.at(self.time + seconds, call)

    def interrupt(self, task: Task, failure: BaseException) -> None:
        """Raise ``failure`` in the task at the point where it waits."""
        if task.done.done or not task.process.alive:
            return
        task.throw = failure
        if task.waits_on is not None and task in task.waits_on.waiters:
            task.waits_on.waiters.remove(task)
        self.ready(task)

    def close(self) -> None:
        """End all running tasks, and the tasks that they start when they end."""
        for task in self.tasks:  # the list can grow during the loop
            if not task.done.done:
                with contextlib.suppress(RuntimeError):  # a `finally` of the task awaits something
                    task.coro.close()

    def step(self) -> bool:
        """Take one step of a task or fire one timer; return False if there is neither."""
        ready = self._ready
        while ready:
            where = int(self._pick() * len(ready))
            task = ready[where]
            ready[where] = ready[-1]
            ready.pop()
            task.queued = False
            if not task.process.alive:
                continue
            if task.process.paused:
                task.process.frozen.append(task)
                continue
            self.steps += 1
            self._run(task)
            return True
        if not self._timers:
            return False
        self.steps += 1
        time, _, call = heapq.heappop(self._timers)
        self.time = time
        call()
        return True

    def run_now(self, task: Task) -> None:
        """Take the first step of this task now, within the step of another task."""
        outer = self.current
        self._run(task)
        self.current = outer

    def _run(self, task: Task) -> None:
        self.current, task.waits_on = task, None
        try:
            if task.throw is not None:
                failure, task.throw = task.throw, None
                waits = task.coro.throw(failure)
            else:
                waits = task.coro.send(None)
        except StopIteration as end:
            task.done.set(end.value)
        except (Cancelled, KeyboardInterrupt) as failure:
            task.done.fail(failure)
        except BaseException as failure:
            if not task.quiet:
                self.crashes.append((task, failure))
            task.done.fail(failure)
        else:
            if waits.done or task.throw is not None:
                self.ready(task)
            else:
                task.waits_on = waits
                waits.waiters.append(task)
        finally:
            self.current = None
