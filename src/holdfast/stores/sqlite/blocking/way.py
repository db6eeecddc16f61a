"""Access to a store's files of any kind: one thread at a time, safe under interrupts and forks.

A client opens its files with its first verb and keeps them open. If the files were deleted and
replaced since, the client closes the old files, opens the new ones and does the verb again.

Every commit and every checkpoint happens inside the file mutex, because SQLite 3.7.0 to 3.51.2 can
lose commits where a checkpoint and another connection's commit overlap (its WAL-reset bug). So work
that leaves the file mutex early only reads from then on. A connection that is used outside the file
mutex is set to ``query_only``. No separate thread checkpoints. The last connection of all processes
checkpoints when it is closed, because no other one uses the file (see ``database``).
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from threading import RLock, get_ident
from typing import Any, Generic, Protocol, TypeVar

from ....errors import HoldfastError, NotSupported, StoreUnavailable
from ....runtime.blocking import boottime
from ....url import StoreURL
from .closing import leak
from .database import MOVE_AWAY, explain
from .gate import Damaged, Gate, Replaced
from .header import PID, WHEN, WORLD
from .odd import UNREADABLE, unreadable
from .opening import Opening
from .place import label

#: Number of times in a row that a verb finds its files replaced before it fails.
REPLACED_MAX = 5
TRY = LOCK_EX | LOCK_NB
REENTERED = (
    "the embedded store was called from a signal handler or a finalizer while this thread was "
    "inside it: only set a flag in such code, and call the store later"
)


class Room(Protocol):
    """The files that one client has open, and closes together."""

    gate: Gate
    words: memoryview[int]
    floats: memoryview[float]
    world: int
    connection: sqlite3.Connection

    def close(self) -> None:
        """Close everything."""
        ...

    def forked(self) -> None:
        """In the child of a fork: close the parent's files."""
        ...


T = TypeVar("T")
F = TypeVar("F", bound=Room)


class Way(Generic[F]):
    """A client's access to its files, which may not be open yet."""

    #: The remedy for damaged files.
    remedy = MOVE_AWAY

    def __init__(self, url: StoreURL) -> None:
        self.url = url
        self.label = label(url)
        self.push = url.options.get("wake", "push") == "push"
        self.closed = False
        self._start()
        _ways[id(self)] = self

    def _start(self) -> None:
        """Set the initial state: no file is open and no thread is inside."""
        self.lock = RLock()
        #: The thread that is inside, or 0. This number keeps out a signal handler, which `lock`
        #: would admit.
        self.inside = 0
        self.pid = os.getpid()
        #: The file mutex that we may hold; set before it is locked for the first time.
        self._gate: Gate | None = None
        self._opening: Opening | None = None
        self._files: F | None = None
        #: The work that remains outside the file mutex: wake-ups, and dead sessions to clear up.
        self._outbox: deque[Any] = deque()
        self._graves: set[str] = set()
        self._replaced = 0

    def _open(self, within: float) -> F:
        """Open the files and keep the file mutex."""
        raise TypeError(f"{type(self).__name__} doesn't define its files")

    def _flush(self) -> None:
        """Send the wake-ups, and clear up; called outside the file mutex."""

    def _unsent(self) -> Iterator[Any]:
        """Yield the wake-ups of the outbox. Each wake-up stays in the outbox until it is sent, so
        that after an interrupt the next verb sends it. Two threads can send the same wake-up,
        without harm."""
        while self._outbox:
            try:
                one = self._outbox[0]
                yield one
                self._outbox.remove(one)
            except (IndexError, ValueError):
                pass  # Another thread has removed this wake-up.

    def reading(self) -> list[RLock]:
        """The locks of the threads that use the files without the file mutex."""
        return []

    # -- in and out ------------------------------------------------------------------------

    def _inside(self, within: float, work: Callable[..., T], *args: Any) -> T:
        """Do a piece of work inside the file mutex, then send its wake-ups outside of it."""
        try:
            answer = self._locked(within, work, args)
        except Replaced:
            return self._again(within, work, *args)
        if self._outbox or self._graves:
            self._flush()
        return answer

    def _locked(  # noqa: C901 - all lines between which an interrupt can come are here
        self, within: float, work: Callable[..., T], args: tuple[Any, ...]
    ) -> T:
        """Run ``work(files, now, *args)`` inside the file mutex; ``now`` is the store's time.

        An interrupt may come between any two lines. So the mutex is taken within the ``try``. The
        steps of the ``finally`` are harmless when there is nothing to undo, and call no function
        that is written in Python: an interrupt at its entry would leave the file mutex locked.
        """
        me = get_ident()
        if self.inside == me:
            raise NotSupported(REENTERED)
        try:
            if not self.lock.acquire(False):
                self._refuse_inside(me)
                within = self._queue(within)
            self.inside = me
            if (files := self._files) is None:
                self._refuse_inside(me)
                files = self._open(within)
            try:
                flock(files.gate.held, TRY)  # A second time after `_open`, without effect.
            except BlockingIOError:
                self._refuse_inside(me)
                files.gate.queue(within)
            if files.words[WORLD] != files.world:
                raise Replaced
            files.words[PID] = self.pid
            files.floats[WHEN] = now = boottime()
            return work(files, now, *args)
        except Replaced as wrong:
            if isinstance(wrong, Damaged) and self._files is not None:
                self._files.words[WORLD] = 0  # So every client opens the files again.
            self._drop()
            raise
        except HoldfastError:
            raise
        except (sqlite3.Error, UnicodeDecodeError) as wrong:
            raise explain(wrong, self.label, False, self.remedy) from wrong
        except UNREADABLE as wrong:
            raise unreadable(wrong, self.label, self.remedy) from wrong
        finally:
            try:
                if self.inside == me and (opened := self._files) is not None:
                    if opened.connection.in_transaction:
                        opened.connection.rollback()
                    if opened.words[PID] == self.pid:
                        opened.words[PID] = 0
            finally:
                try:
                    if self.inside == me:
                        self.inside = 0
                        if (gate := self._gate) is not None:
                            held, gate.held = gate.held, gate.fd
                            flock(held, LOCK_UN)
                finally:
                    try:  # noqa: SIM105 - suppress() is written in Python, see above
                        self.lock.release()
                    except RuntimeError:
                        pass

    def _refuse_inside(self, thread: int) -> None:
        """Raise if the thread is inside the files of another client. These may be the same files:
        then the thread would wait for itself."""
        for way in [ref() for ref in _ways.valuerefs()]:
            if way is not None and way is not self and way.inside == thread:
                raise NotSupported(REENTERED)

    def _queue(self, within: float) -> float:
        """Wait for the other threads of this client; return the seconds that are left."""
        start = boottime()
        if not self.lock.acquire(timeout=max(0.0, within)):
            gate = self._gate
            raise StoreUnavailable(
                gate.stuck(within)
                if gate is not None
                else f"{self.label} was being opened by another thread for {within:.3g} s"
            )
        return within - (boottime() - start)

    def _again(self, within: float, work: Callable[..., T], *args: Any) -> T:
        """Do the work again in the files that replaced the old ones."""
        self._replaced += 1
        if self._replaced > REPLACED_MAX:
            self._replaced = 0
            raise StoreUnavailable(f"the files of {self.label} keep being replaced by others")
        answer = self._inside(within, work, *args)
        self._replaced = 0
        return answer

    def _stand(self, gate: Gate) -> None:
        self._gate = gate

    def _opened_or_not(self) -> None:
        """End the opening, whether it succeeded or not."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.close()

    def _drop(self) -> None:
        """Close the files, but not the session."""
        files, gate = self._files, self._gate
        self._files = self._gate = None
        self._opened_or_not()
        if files is not None:
            files.close()
        elif gate is not None:
            gate.close()

    # -- forking ---------------------------------------------------------------------------

    def forked(self) -> None:
        """Start again in the child of a fork, and touch nothing that the parent uses."""
        if self.pid == os.getpid():
            return
        self._abandon()
        self._start()

    def _abandon(self) -> None:
        """Forget the parent's state, without touching it."""
        self._opened_or_not()
        if self._files is not None:
            leak(self._files.connection)
            self._files.forked()
        elif self._gate is not None:
            self._gate.forked()


# -- what a fork must find and leave --------------------------------------------------------------

#: Every `Way` by its ``id()``; copied in one step, because other threads can add a `Way` meanwhile.
_ways: weakref.WeakValueDictionary[int, Way[Any]] = weakref.WeakValueDictionary()
#: By thread that is forking: the locks that it holds until the fork is done.
_still: dict[int, list[RLock]] = {}
#: Maximum seconds that a fork waits for each lock of a verb that runs in another thread.
STILL_S = 0.5


def forking() -> bool:
    """Is a thread about to fork? Then no thread enters SQLite without the file mutex."""
    return bool(_still)


def _before() -> None:
    """Fork only between two verbs: SQLite's own mutexes and locks must be free in the child."""
    still = _still[get_ident()] = []
    ways = [way for ref in _ways.valuerefs() if (way := ref()) is not None]
    # In a fixed order, so that two threads that fork at once don't block each other.
    locks = sorted([way.lock for way in ways], key=id)
    locks += sorted([lock for way in ways for lock in way.reading()], key=id)
    still.extend(lock for lock in locks if lock.acquire(timeout=STILL_S))


def _after_in_parent() -> None:
    for lock in _still.pop(get_ident(), ()):
        lock.release()


def _after_in_child() -> None:
    _still.clear()
    for way in [ref() for ref in _ways.valuerefs()]:
        if way is not None:
            way.forked()


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
