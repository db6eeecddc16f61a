"""The lines of this process under one lock, and mailboxes for threads."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from ...errors import HoldfastError, NotSupported
from ...runtime.blocking import boottime, inside
from .jobs import Queue
from .line import Lines
from .values import Values

T = TypeVar("T")

REENTERED = (
    "the memory store was called from a signal handler or a finalizer while this thread was "
    "inside it: set a flag there, and act on it later"
)


class Space:
    """One set of lines, shared by every client of the process that names it."""

    def __init__(self) -> None:
        self.lock: Any = threading.RLock()
        self.lines = Lines()
        #: The ones that were looked at last stand at the end.
        self.queues: OrderedDict[str, Queue] = OrderedDict()
        self.guarded = Values()
        self.pid = os.getpid()
        #: Added to the clock; a test may turn it forward.
        self.skew = 0.0

    @inside
    def call(self, act: Callable[[Lines, float], T]) -> T:
        """Run on the lines with the time now, alone; what Ctrl-C interrupts is repaired."""
        if self.lock._is_owned():
            raise NotSupported(REENTERED)
        with self.lock:
            try:
                return act(self.lines, boottime() + self.skew)
            except HoldfastError:
                raise
            except BaseException:
                self.lines.mend()
                raise

    @inside
    def queue(self, name: str, act: Callable[[Queue, float], T]) -> tuple[T, list[Any]]:
        """The same on one queue; also whom to wake."""
        if self.lock._is_owned():
            raise NotSupported(REENTERED)
        with self.lock:
            now = boottime() + self.skew
            queue = self.queues.get(name)
            if queue is None:
                self._forget_some(now)
                queue = self.queues[name] = Queue()
            else:
                self.queues.move_to_end(name)
            try:
                return act(queue, now), queue.pokes
            except HoldfastError:
                raise
            except BaseException:
                queue.mend(now)
                raise
            finally:
                queue.pokes = []
                if queue.unused():
                    self.queues.pop(name, None)

    def _forget_some(self, now: float) -> None:
        """Each queue that is made makes room by forgetting two that nobody uses any more."""
        for _ in range(min(2, len(self.queues))):
            name, queue = next(iter(self.queues.items()))
            if queue.forgettable(now):
                del self.queues[name]
            else:
                self.queues.move_to_end(name)

    def queue_names(self) -> list[str]:
        """All queues that there are."""
        return list(self.queues)

    @inside
    def values(self, act: Callable[[Values, float], T]) -> tuple[T, list[Any]]:
        """The same on the values of guards; also whom to wake."""
        if self.lock._is_owned():
            raise NotSupported(REENTERED)
        with self.lock:
            guarded = self.guarded
            try:
                return act(guarded, boottime() + self.skew), guarded.pokes
            finally:
                guarded.pokes = []

    def forked(self) -> None:
        """A forked child starts empty, and with a lock that nobody holds."""
        if self.pid != os.getpid():
            self.pid = os.getpid()
            self.lock = threading.RLock()
            self.lines = Lines()
            self.queues = OrderedDict()
            self.guarded = Values()


_spaces: dict[str, Space] = {}


def space(name: str) -> Space:
    """The space of this name."""
    return _spaces.setdefault(name, Space())


class BlockingMailbox:
    """A mailbox that a thread waits on."""

    def __init__(self) -> None:
        self._fence: int | None = None
        self._full = threading.Lock()
        self._full.acquire()

    def poke(self, fence: int) -> None:
        """The claim was granted."""
        if self._fence is None:
            self._fence = fence
            self._full.release()

    async def wait(self, seconds: float) -> int | None:
        """The fence of the grant, or None when the time-out has expired."""
        if self._full.acquire(timeout=max(0.0, seconds)):
            self._full.release()
        return self._fence


class BlockingPort:
    """The port for threads."""

    def __init__(self, name: str) -> None:
        self.space = name
        self._space = space(name)
        self.call = self._space.call
        self.queue = self._space.queue
        self.queue_names = self._space.queue_names
        self.values = self._space.values

    def mailbox(self) -> BlockingMailbox:
        """A new mailbox."""
        return BlockingMailbox()

    def forked(self) -> None:
        """We are the child of a fork."""
        self._space.forked()
