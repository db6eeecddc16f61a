"""Ctrl-C in acquire, release and ``with``, at random and at every point: no claim is left."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Strike, dice, points
from tests.torture.scale import FULL, times

lag.watch()

LATER_S = 0.250
#: Seconds after which a remaining claim counts as left: an undo can need a new connection first.
LEFT_S = 15.0
#: Seconds between two interrupts: longer than the undo of an interrupted verb takes.
AGAIN_S = 5.0
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

    def gate_is_free(self) -> bool:
        """Return True if the file mutex is released. (The client's renewer can hold it for a
        moment.)"""
        fd = os.open(Path(self.url.removeprefix("sqlite://") + ".d") / "gate", os.O_RDWR)
        begun = boottime()
        try:
            while not later(begun):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True
        finally:
            os.close(fd)
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


def as_threading_has_it(room: Room) -> None:
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
    acquire_and_release,
    as_threading_has_it,
    with_lock,
    with_hold,
    with_reentrant,
    with_semaphore,
    with_readers,
    with_writer,
    with_all,
    with_election,
    with_min_hold,
    adopted,
    in_the_line,
    in_vain,
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

    # Given all the points at which the interpreter checks for signals in this work
    def counted() -> int:
        room.prepare(work)
        return points(do)

    many = min(counted(), counted())  # on a busy machine a wait has more of them
    chance = dice(work.__name__)
    numbers = range(1, many + 1)
    some = numbers if FULL else sorted(chance.sample(numbers, min(many, 20)))
    not_begun, left, struck = [], [], 0
    for number in some:
        # When Ctrl-C arrives at one of them
        room.prepare(work)
        with contextlib.suppress(KeyboardInterrupt), Strike(number) as strike:
            do()
        struck += bool(strike.where)
        # Then a moment later no claim is left, and the file mutex is free
        begun = strike.where.rpartition(" ")[2] not in NOT_BEGUN
        if room.left(LEFT_S if begun and not left else LATER_S):
            (left if begun else not_begun).append(f"{number}: {strike.where}")
            room.renew()
        assert room.gate_is_free(), strike.where
    print(f"{struck} strikes, {many} points; left, as a release had not begun: {not_begun}")
    assert left == []
    assert len(not_begun) <= NOT_BEGUN_MAX * statements(work)
    assert struck >= len(some) / 2
    # And everything works as before
    room.prepare(work)
    do()
    assert room.left() == 0


@contextlib.contextmanager
def ctrl_c(after: float) -> Iterator[None]:
    """Raise a real Ctrl-C after ``after`` seconds, and again every ``AGAIN_S`` seconds.

    An interrupt in a ``__del__`` during garbage collection is only reported, and the program
    continues. A user would then press Ctrl-C again.
    """
    former = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, after, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def test_real_signals_at_random_moments_leave_nothing_and_no_overlap(room: Room) -> None:
    # Given two other threads that repeatedly acquire the same name, and record which of them is
    # inside
    chance = dice("real signals")
    inside: list[str] = []
    overlaps: list[tuple[str, ...]] = []
    over = threading.Event()

    def works(name: str) -> None:
        inside.append(name)
        if len(inside) > 1:
            overlaps.append(tuple(inside))
        time.sleep(0.000_1)
        inside.remove(name)

    def rival(name: str) -> None:
        while not over.is_set():
            with room.other.lock("x"):
                works(name)

    rivals = [threading.Thread(target=rival, args=(name,)) for name in ("one", "two")]
    for thread in rivals:
        thread.start()
    struck = 0
    end = time.monotonic() + 60
    try:
        while struck < times(200, 60) and time.monotonic() < end:
            # When a signal arrives somewhere in acquire, in the body or in release
            where = ""
            try:
                with ctrl_c(chance.random() * 0.004 + 1e-5):
                    while True:
                        with room.client.lock("x", timeout=5):
                            pass
            except KeyboardInterrupt as failure:
                *_, (frame, _) = traceback.walk_tb(failure.__traceback__)
                where = frame.f_code.co_qualname
            struck += 1
            # Then no claim of the interrupted client is left
            if room.left(LATER_S if where in NOT_BEGUN else LEFT_S):
                assert where in NOT_BEGUN, f"a claim was left by signal {struck}, in {where}"
                room.renew()
    finally:
        over.set()
        for thread in rivals:
            thread.join(20)
    # And no two threads were inside together, and the file mutex is free
    print(f"{struck} signals")
    assert struck >= times(200, 60)
    assert overlaps == []
    assert room.gate_is_free()
    assert room.left() == 0


def test_interrupts_inside_the_file_mutex_leave_it_free(room: Room) -> None:
    # Given the functions in which a verb holds the file mutex
    inside = (
        "holdfast.stores.sqlite.blocking.way:Way._locked",
        "holdfast.stores.sqlite.blocking.engine:Engine._join",
        "holdfast.stores.sqlite.blocking.engine:Engine._leave",
        "holdfast.stores.sqlite.blocking.entry:Entry._slow",
        "holdfast.stores.sqlite.blocking.lines:Lines.join",
        "holdfast.stores.sqlite.blocking.line:Line.settle",
        "holdfast.stores.sqlite.blocking.lone:Lone.enter",
    )
    struck = 0
    for function in inside:
        for work in (with_lock, in_the_line):
            for number in count(1):
                # When Ctrl-C arrives at each of their points
                room.prepare(work)
                with contextlib.suppress(KeyboardInterrupt), Strike(number, function=function) as s:
                    work(room)
                if not s.where:
                    break
                struck += 1
                # Then the file mutex is free immediately, and a moment later no claim is left
                assert room.gate_is_free(), s.where
                assert room.left() == 0, s.where
    print(f"{struck} strikes inside the gate")
    assert struck > 30
