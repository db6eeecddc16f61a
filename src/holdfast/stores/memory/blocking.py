"""The state of the memory store under one lock, and mailboxes for threads."""

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
    "inside it: only set a flag in such code, and call the store later"
)


class Space:
    """The lines, queues and guards under one name, shared by all clients of the process."""

    def __init__(self) -> None:
        self.lock: Any = threading.RLock()
        self.lines = Lines()
        #: The queues, in the order of their last use or of their last check by `_forget_some`.
        self.queues: OrderedDict[str, Queue] = OrderedDict()
        self.stored = Values()
        self.pid = os.getpid()
        #: Seconds that are added to the clock; above 0 only in tests.
        self.skew = 0.0

    @inside
    def call(self, act: Callable[[Lines, float], T]) -> T:
        """Run `act` on the lines under the lock, with the current time.

        If an exception such as Ctrl-C interrupts `act`, the lines are repaired.
        """
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
        """Run `act` on one queue, as in `call`; also return the mailboxes to wake."""
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
        """Check the first two queues: remove each that is `forgettable`, move others to the end.

        This method is called for each new queue.
        """
        for _ in range(min(2, len(self.queues))):
            name, queue = next(iter(self.queues.items()))
            if queue.forgettable(now):
                del self.queues[name]
            else:
                self.queues.move_to_end(name)

    def queue_names(self) -> list[str]:
        """The names of all queues."""
        return list(self.queues)

    @inside
    def values(self, act: Callable[[Values, float], T]) -> tuple[T, list[Any]]:
        """Run `act` on the values of guards; also return the mailboxes to wake."""
        if self.lock._is_owned():
            raise NotSupported(REENTERED)
        with self.lock:
            stored = self.stored
            try:
                return act(stored, boottime() + self.skew), stored.pokes
            finally:
                stored.pokes = []

    def forked(self) -> None:
        """In the child of a fork: start with no data and with a new lock, which is free."""
        if self.pid != os.getpid():
            self.pid = os.getpid()
            self.lock = threading.RLock()
            self.lines = Lines()
            self.queues = OrderedDict()
            self.stored = Values()


_spaces: dict[str, Space] = {}


def space(name: str) -> Space:
    """Return the space with this name; create it if there is none."""
    return _spaces.setdefault(name, Space())


class BlockingMailbox:
    """A mailbox, in which one thread waits for a wake-up; any thread can send it."""

    def __init__(self) -> None:
        self._fence: int | None = None
        self._full = threading.Lock()
        self._full.acquire()

    def poke(self, fence: int) -> None:
        """Wake the waiting thread with the fence of its grant, or with 1 in queues and guards.

        Only the first wake-up counts.
        """
        if self._fence is None:
            self._fence = fence
            self._full.release()

    async def wait(self, seconds: float) -> int | None:
        """Return the number in the wake-up, or None if no wake-up came within ``seconds``."""
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
        """Return a new mailbox."""
        return BlockingMailbox()

    def forked(self) -> None:
        """In the child of a fork: start with no data."""
        self._space.forked()
