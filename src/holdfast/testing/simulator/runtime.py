"""The runtime of the simulation: the port through which the core uses a virtual process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

from ...core.ports import CancelScope
from ...errors import NotSupported
from .world import Cancelled, Fut, Process, Task

T = TypeVar("T")


class SimLatch:
    """A latch in virtual time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._flag = False
        self._fut: Fut[None] | None = None

    def set(self) -> None:
        """Wake the waiter, or let the next ``wait`` return immediately."""
        self._flag = True
        if self._fut is not None:
            self._fut.set(None)

    async def wait(self, seconds: float | None) -> bool:
        """Sleep until ``set`` is called, or for ``seconds``; return True if ``set`` was called."""
        if not self._flag:
            fut: Fut[None] = Fut(self._process.world)
            self._fut = fut
            if seconds is not None:
                self._process.world.after(seconds / self._process.rate, lambda: fut.set(None))
            await fut
            self._fut = None
        was, self._flag = self._flag, False
        return was


class SimRuntime:
    """Virtual time, seeded identity, tasks of one process.

    A process with ``threads`` behaves like threads: the thread of an interrupted call runs its undo
    itself. Any other process behaves like asyncio: the undo is a shielded task, which continues
    even if the task that began the undo is cancelled.
    """

    awaits = False

    def __init__(self, process: Process) -> None:
        self.process = process
        self.now = process.now
        self._world = process.world
        self._ids = process.world.rng
        #: The task of the renewer that was started last.
        self.keeper: Task | None = None

    def bind(self) -> None:
        """Do nothing: a simulation has only one event loop."""

    def forked(self) -> None:
        """Do nothing: this runtime keeps no state of the parent."""

    def new_id(self) -> str:
        """Return a new secret id, drawn from the seed."""
        return f"{self._ids.getrandbits(128):032x}"

    def interrupts(self, failure: BaseException) -> bool:
        """Return True for an interrupt from outside: such a failure isn't an `Exception`."""
        return not isinstance(failure, Exception)

    def flow(self) -> Hashable:
        """Return the task that takes this step."""
        return self._world.current

    def hurried(self) -> bool:
        """Return False: no task of the simulation has a timer that cancels it."""
        return False

    def jitter(self) -> float:
        """Return a random number, drawn from the seed."""
        return self._ids.random()

    def epoch(self) -> int:
        """Return the epoch of the process, which changes in the child of a fork."""
        return self.process.epoch

    def latch(self) -> SimLatch:
        """Return a new latch."""
        return SimLatch(self.process)

    def cancel_scope(self) -> CancelScope:
        """Raise ``NotSupported``: other tests cover ``cancel_on_lost`` with real event loops."""
        raise NotSupported("cancel_on_lost is not simulated")

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass, by the clock of this process."""
        fut: Fut[None] = Fut(self._world)
        self._world.after(max(seconds, 0.0) / self.process.rate, lambda: fut.set(None))
        await fut

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` in place for threads, otherwise as a shielded task."""
        if self.process.threads:
            return await work
        errand = Task(self.process, work, "errand")
        errand.quiet = errand.nobody = True
        self._world.run_now(errand)
        result: T = await errand.done
        return result

    def follow(self, made: object, what: str) -> None:
        """Do nothing: the callbacks of the workload are plain functions, without a task."""

    def background(
        self, main: Callable[[], Coroutine[Any, Any, None]], over: Callable[[], None], name: str
    ) -> Callable[[], object]:
        """Start the renewer."""

        async def keep() -> None:
            try:
                await main()
            finally:
                over()

        task = self._world.spawn(self.process, keep(), f"{self.process!r} {name}")
        # Ctrl-C never interrupts a renewer's thread, but a program can cancel all tasks of a loop.
        task.nobody = self.process.threads
        self.keeper = task
        return lambda: None if task.nobody else self._world.interrupt(task, Cancelled())
