"""The arena of a case: a store, a face, the primitive under test, and the actors.

A case takes from the arena only what it needs: locks of the primitive under test (``lock`` of one
client, ``rival`` of another), actors that run at the same time, and bounded waits. Afterwards the
arena closes what was opened and checks whether the case has left a claim.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from ...aio import AsyncClient, AsyncLock
from ...aio.guard import AsyncGuard
from ...aio.queue import AsyncQueue
from ...core.model import Capabilities, ClaimRecord, Kind, LineRecord
from ...core.policy import GRACE_S
from .. import lag
from ..faces import Actor, Face, Flag, now
from ..promise import TooLate, promised
from ..worker import Worker
from . import pulse

E = TypeVar("E", bound=BaseException)

#: Maximum seconds, on an idle machine, of an act that must be done "at once"; also the seconds
#: by which a bounded wait may exceed its bound.
AT_ONCE_S = 0.25
#: Seconds that waiters get to begin to wait, on a store that doesn't show its waiters.
UNSEEN_S = 0.15
#: Seconds that waiters get to ask again, on a store that doesn't wake them.
ASKS_AGAIN_S = 1.25
#: Maximum seconds of a wait if the case gives no other bound.
SOON_S = 10.0
#: The length in seconds of a lease that a case must not lose. The lease is renewed after each third
#: of that time, so the lease survives a second in which the machine stands still. Leases without
#: renewal get this length, too.
KEPT_S = 2.4
#: With more processes per processor than this number, a server answers late.
OVERLOADED = 2
#: Return the load average: about the number of processes that run or wait for a processor.
_load: Callable[[], tuple[float, ...]] = getattr(os, "getloadavg", lambda: (0.0,))


@dataclass(frozen=True)
class Primitive:
    """A kind of object that a client makes, and the function that makes it for a case."""

    name: str
    #: The name of the client's method that makes the object.
    factory: str
    kind: Kind
    make: Callable[..., Any]
    #: The capability that a store needs for this primitive; empty if every store supports it.
    needs: str = ""


_ALL = [
    Primitive("lock", "lock", Kind.LOCK, lambda c, n, **o: c.lock(n, **o)),
    Primitive("reentrant", "lock", Kind.LOCK, lambda c, n, **o: c.lock(n, reentrant=True, **o)),
    Primitive(
        "semaphore",
        "semaphore",
        Kind.SEMAPHORE,
        lambda c, n, **o: c.semaphore(n, 1, **o),
        "semaphore",
    ),
    Primitive(
        "weighted",
        "semaphore",
        Kind.SEMAPHORE,
        lambda c, n, **o: c.semaphore(n, 5, weight=3, **o),
        "semaphore",
    ),
    Primitive("read", "rwlock", Kind.RWLOCK, lambda c, n, **o: c.rwlock(n, **o).read, "rwlock"),
    Primitive("write", "rwlock", Kind.RWLOCK, lambda c, n, **o: c.rwlock(n, **o).write, "rwlock"),
    Primitive("all", "all", Kind.LOCK, lambda c, n, **o: c.all(n, n + "/2", **o)),
    Primitive(
        "election", "election", Kind.ELECTION, lambda c, n, **o: c.election(n, **o), "election"
    ),
    Primitive("queue", "queue", Kind.LOCK, lambda c, n, **o: c.queue(n, **o), "queues"),
    Primitive("guard", "guard", Kind.LOCK, lambda c, n, **o: c.guard(n, **o), "guards"),
]
#: Every primitive, by name. ``weighted`` is a semaphore with room for only one claim.
PRIMITIVES = {one.name: one for one in _ALL}
#: Primitives with one holder at a time and with all methods of a lock.
EXCLUSIVE = ("lock", "reentrant", "semaphore", "weighted", "write", "election")
#: Primitives whose hold is one hold on one name.
SINGLE = ("lock", "reentrant", "semaphore", "weighted", "read", "write", "election")
#: Primitives with all options of a hold, such as ``auto_renew``.
TUNABLE = ("lock", "reentrant", "semaphore", "weighted", "read", "write")


def stolen(begun: float) -> float:
    """Return the seconds since ``begun`` in which this process or a server could not run."""
    return max(lag.since(begun), pulse.since(begun))


def at_once(begun: float) -> float:
    """Return the limit for "at once": 250 ms, and the lateness of the machine since ``begun``."""
    return AT_ONCE_S + stolen(begun)


def unclear(begun: float) -> bool:
    """Return True if this process or the server stood still too long for a reliable answer.

    At the end of a wait the server has a tenth of a second to answer (``GRACE_S``). On an
    overloaded machine a server also needs longer, because it waits for a processor.
    """
    still = max(lag.most(begun, GRACE_S), pulse.most(begun))
    return still > GRACE_S / 2 or _load()[0] > OVERLOADED * (os.cpu_count() or 1)


class Caught(Generic[E]):
    """A context whose body must raise an exception; afterwards ``error`` is that exception."""

    error: E

    def __init__(self, kind: type[E], words: tuple[str, ...]) -> None:
        self._kind = kind
        self._words = words

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> bool:
        assert failure is not None, f"{self._kind.__name__} was not raised"
        if not isinstance(failure, self._kind):
            return False
        self.error = failure
        missing = [word for word in self._words if word not in str(failure)]
        assert not missing, f"{missing} is not in: {failure}"
        return True


def raises(kind: type[E], *words: str) -> Caught[E]:
    """Return a context whose body must raise this exception, with these words in its text."""
    return Caught(kind, words)


class Arena:
    """The tools that a case gets."""

    def __init__(self, url: str, face: Face, primitive: str, case: str) -> None:
        lag.watch()
        self.url = url
        self.face = face
        self.primitive = PRIMITIVES[primitive]
        self.start_of_names = f"{case[:60]}:{os.urandom(6).hex()}:"
        #: The name that ``lock`` and ``rival`` acquire.
        self.name = self.start_of_names + "x"
        self._clients: list[AsyncClient] = []
        self._workers: list[Worker] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.sleep = face.sleep
        #: The client under test, and a second client with another owner.
        self.locks = self.client(label="ours")
        self.others = self.client(label="rival")

    def number(self, hold: Any) -> int:
        """Return the number of a hold's claim: its fence, where the store has fences."""
        return int(hold._lease.fence)

    def in_order(self, *numbers: int) -> None:
        """Check that these fences rise. Check nothing if the store has no fences."""
        if self.can.fences:
            with promised("fences rise"):
                assert list(numbers) == sorted(set(numbers)), numbers

    def served(self, begun: float) -> float:
        """Return the maximum seconds from a release at ``begun`` to the next waiter's grant."""
        return at_once(begun) + (0.0 if self.can.wakes_waiters else ASKS_AGAIN_S)

    @property
    def can(self) -> Capabilities:
        """The capabilities that the store declares."""
        return self.locks.capabilities

    def client(self, **options: Any) -> AsyncClient:
        """Make one more client; the arena closes it after the case."""
        client = self.face.client(self.url, **options)
        self._clients.append(client)
        return client

    def lock(self, **options: Any) -> AsyncLock:
        """Make a lock on the name, of the primitive under test."""
        lock: AsyncLock = self.primitive.make(self.locks, self.name, **options)
        return lock

    def rival(self, **options: Any) -> AsyncLock:
        """Make the same lock with another client, so that it has another owner."""
        lock: AsyncLock = self.primitive.make(self.others, self.name, **options)
        return lock

    def queue(self, **options: Any) -> AsyncQueue:
        """Make a queue of the name with the client under test."""
        made: AsyncQueue = self.locks.queue(self.name, **options)
        return made

    def rival_queue(self, **options: Any) -> AsyncQueue:
        """Make the same queue with another client."""
        made: AsyncQueue = self.others.queue(self.name, **options)
        return made

    def guard(self, **options: Any) -> AsyncGuard:
        """Make a refresh guard of the name."""
        made: AsyncGuard = self.locks.guard(self.name, **options)
        return made

    def rival_guard(self, **options: Any) -> AsyncGuard:
        """Make the same guard with another client."""
        made: AsyncGuard = self.others.guard(self.name, **options)
        return made

    def fresh(self, end: str) -> str:
        """Return another name that no other run uses."""
        return self.start_of_names + end

    def folder(self) -> pathlib.Path:
        """Return a temporary folder; the arena removes it after the case."""
        self._folder = self._folder or tempfile.TemporaryDirectory()
        return pathlib.Path(self._folder.name)

    def start(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Actor:
        """Start ``work(*args)`` at the same time, in a separate thread or task."""
        return self.face.start(lambda: work(*args))

    def flag(self) -> Flag:
        """Make a flag, to set and to wait for."""
        return self.face.flag()

    def worker(self) -> Worker:
        """Start another process with its own client; the arena ends it after the case."""
        worker = Worker(self.url, self.face)
        self._workers.append(worker)
        return worker

    async def until(self, condition: Callable[[], Any], within: float = SOON_S) -> None:
        """Wait until the condition is true.

        Raise ``TooLate`` after ``within`` seconds plus the time that the machine stood still.
        """
        begun = now()
        while not condition():
            late = now() - begun - within
            if late > 0 and late > stolen(begun):
                raise TooLate(f"it did not come true within {within:g} s: {condition}")
            await self.sleep(0.002)

    async def renewed(self, hold: Any) -> None:
        """Wait until the renewer has renewed the hold once more."""
        before = hold._lease.deadline
        await self.until(lambda: hold._lease.deadline > before)

    async def look(self, name: str = "") -> LineRecord | None:
        """Return the line of claims of the name; None if the line is empty."""
        lines = await self.others.inspect(name or self.name, exact=True)
        return lines[0] if lines else None

    async def holders(self, name: str = "") -> tuple[ClaimRecord, ...]:
        """Return the holders of the name."""
        line = await self.look(name)
        return line.holders if line else ()

    async def line(self, waiters: int, name: str = "") -> None:
        """Wait until ``waiters`` claims wait for the name.

        If the store doesn't show its waiters, wait for ``UNSEEN_S``.
        """
        if not self.can.visible_line:
            await self.sleep(UNSEEN_S)
            return
        begun = now()
        while True:
            line = await self.look(name)
            here = len(line.waiters) if line else 0
            if here == waiters:
                return
            took = now() - begun
            if took > SOON_S and took > SOON_S + stolen(begun):
                raise TooLate(f"{here} instead of {waiters} wait: {line}")
            await self.sleep(0.002)

    async def free(self, within: float = SOON_S, name: str = "") -> float:
        """Wait until no client holds the name; return the seconds. Raise as ``until`` does."""
        begun = now()
        while await self.holders(name):
            took = now() - begun
            if took > within and took > within + stolen(begun):
                raise TooLate(f"still held after {took:.3g} s")
            await self.sleep(0.005)
        return now() - begun

    async def close(self) -> None:
        """End the workers, close the clients and remove the folder."""
        for worker in self._workers:
            worker.end()
        for client in self._clients:
            await client.close()
        if self._folder is not None:
            self._folder.cleanup()

    async def left_behind(self) -> list[LineRecord]:
        """Return the claims that the case has left in the store."""
        return await self.others.inspect(self.start_of_names)

    async def swept(self) -> None:
        """Check that no job is in delivery, and remove the other jobs of the queues."""
        if self.primitive.factory == "queue" and self.can.queues:
            for record in await self.others.queues(self.start_of_names):
                assert not record.taken, f"jobs are in delivery after the case: {record}"
                await self.others.queue(record.name).purge()
