"""Ctrl-C in acquire, release and ``with``, at every point: no claim is left."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Strike, dice, points
from tests.torture.scale import FULL

lag.watch()

LATER_S = 0.250
#: Seconds after which a remaining claim counts as left: an undo can need a new connection first.
LEFT_S = 15.0
#: The interpreter checks for signals before the first line of a function. An interrupt at these
#: places therefore means: a release was not called, or a ``with`` statement did not get its hold.
NOT_BEGUN = {
    *("Lock.__exit__", "MultiLock.__exit__", "Hold.__enter__", "Hold.__exit__"),
    *("Hold.release", "MultiHold.release", "Lock.release", "run_sync"),
    *("LockBase._release_one", "MultiHoldBase._exit", "HoldBase._exit"),
    *("MultiHoldBase._release", "HoldBase._release", "Door.leave"),
}
#: Maximum number of such points in one statement.
NOT_BEGUN_MAX = 5


def later(begun: float, moment: float = LATER_S) -> bool:
    """Return True if the moment has passed; it is longer if the machine paused."""
    late = boottime() - begun - moment
    return late > 0 and late > 2 * lag.since(begun)


class Room:
    """A client that is interrupted, and another client that inspects the store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.names = count()
        self.other = Client(url, label="other")
        self.renew()

    def renew(self) -> None:
        """Make a new client, because an interrupt can leave the former one inside a lock."""
        former = getattr(self, "client", None)
        if former is not None:
            former.close()
        self.client = Client(self.url, label="ours")
        self.client.lock("warm").acquire().release()

    def prepare(self, work: Callable[[Room], None]) -> None:
        """Let the other client do its part first: detach a hold, or hold a name."""
        self.token, self.soon = "", lambda: None
        if work is adopted:
            # A different name each time, because an unadopted hold stays for its ttl.
            self.token = self.other.lock(f"x{next(self.names)}").acquire().detach()
        elif work is in_the_line:
            self.soon = threading.Timer(0.002, self.other.lock("x").acquire().release).start
        elif work is in_vain and not self.other.lock("y").locked():
            self.other.lock("y").acquire()

    def left(self, moment: float = LEFT_S) -> int:
        """Return the number of the interrupted client's claims; give the renewer a moment first."""
        begun = boottime()
        while True:
            over = later(begun, moment)
            lines = self.other.inspect()
            ours = [c for line in lines for c in line.claims if c.owner.endswith(":ours")]
            if not ours or over:
                return len(ours)
            time.sleep(0.001)

    def mutex_is_free(self) -> bool:
        """Return True if the file mutex is released. (The client's renewer can hold it for a
        moment.)"""
        begun = boottime()
        with open(Path(self.url.removeprefix("sqlite://") + ".d") / "gate", "r+b") as gate:
            while not later(begun):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
        return False

    def close(self) -> None:
        self.client.close()
        self.other.close()


#: If an interrupt arrives in a finalizer, the interpreter only prints a warning.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def room(url: str) -> Iterator[Room]:
    one = Room(url)
    # Holds that an interrupt made unreachable log warnings, as they should; the log is off here.
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield one
        one.close()
    logging.disable(logging.NOTSET)


def acquire_and_release(room: Room) -> None:
    hold = room.client.lock("x").acquire(timeout=1)
    assert hold is not None
    hold.release()


def as_in_threading(room: Room) -> None:
    lock = room.client.lock("x")
    lock.acquire()
    lock.release()


def with_lock(room: Room) -> None:
    with room.client.lock("x") as hold:
        hold.check()


def with_hold(room: Room) -> None:
    with room.client.lock("x").acquire() as hold:
        hold.check()


def with_reentrant(room: Room) -> None:
    lock = room.client.lock("x", reentrant=True)
    with lock, lock:
        pass


def with_semaphore(room: Room) -> None:
    with room.client.semaphore("x", 3, weight=2):
        pass


def with_readers(room: Room) -> None:
    read = room.client.rwlock("x").read
    with read, read:
        pass


def with_writer(room: Room) -> None:
    with room.client.rwlock("x").write as hold:
        hold.downgrade()


def with_all(room: Room) -> None:
    with room.client.all("x", "y", "z"):
        pass


def with_election(room: Room) -> None:
    room.client.election("x").run(lambda hold: hold.check())


def with_min_hold(room: Room) -> None:
    with room.client.lock("x", min_hold=0.001):
        pass


def adopted(room: Room) -> None:
    room.client.adopt(room.token).release()


def in_the_line(room: Room) -> None:
    room.soon()
    with room.client.lock("x", timeout=5):
        pass


def in_vain(room: Room) -> None:
    assert room.client.lock("y").acquire(timeout=0.003) is None


WORKS = [
    *(acquire_and_release, as_in_threading, with_lock, with_hold, with_reentrant),
    *(with_semaphore, with_readers, with_writer, with_all, with_election, with_min_hold),
    *(adopted, in_the_line, in_vain),
]


def statements(work: Callable[[Room], None]) -> int:
    """Return the number of ``with`` statements that the work exits."""
    return 2 if work in (with_reentrant, with_readers) else 1


@pytest.mark.usual(5)
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_an_interrupt_at_each_point_in_turn_leaves_nothing(
    work: Callable[[Room], None], room: Room
) -> None:
    def do() -> None:
        work(room)

    def counted() -> int:
        room.prepare(work)
        return points(do)

    many = min(counted(), counted())  # on a busy machine a wait has more of them
    chance = dice(work.__name__)
    numbers = range(1, many + 1)
    some = numbers if FULL else sorted(chance.sample(numbers, min(many, 20)))
    not_begun, left, struck = [], [], 0
    for number in some:
        room.prepare(work)
        with contextlib.suppress(KeyboardInterrupt), Strike(number) as strike:
            do()
        struck += bool(strike.where)
        begun = strike.where.rpartition(" ")[2] not in NOT_BEGUN
        if room.left(LEFT_S if begun and not left else LATER_S):
            (left if begun else not_begun).append(f"{number}: {strike.where}")
            room.renew()
        assert room.mutex_is_free(), strike.where
    assert left == []
    assert len(not_begun) <= NOT_BEGUN_MAX * statements(work)
    assert struck >= len(some) / 2
    room.prepare(work)
    do()
    assert room.left() == 0
