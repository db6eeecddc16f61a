"""Ctrl-C in acquire, release and ``with``, at random and at every point: nothing is left."""

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
#: Seconds after which a claim is left for good: an undo may have to connect first.
LEFT_S = 15.0
#: Longer than anybody needs to give back what he had when a signal struck.
AGAIN_S = 5.0
#: The interpreter looks for signals before the first line of a function. So at these places a
#: release is as good as not called, and a hold not taken over by its ``with`` statement.
NOT_BEGUN = {
    *("Lock.__exit__", "MultiLock.__exit__", "Hold.__enter__", "Hold.__exit__"),
    *("Hold.release", "MultiHold.release", "Lock.release", "run_sync"),
    *("LockBase._release_one", "MultiHoldBase._exit", "HoldBase._exit"),
    *("MultiHoldBase._release", "HoldBase._release", "Door.leave"),
}
#: So many points of one statement are of that kind, at most.
NOT_BEGUN_MAX = 5


def later(begun: float, moment: float = LATER_S) -> bool:
    """Is it a moment later? It is longer where the machine stood still."""
    late = boottime() - begun - moment
    return late > 0 and late > 2 * lag.since(begun)


class Room:
    """A client under interruption, and another one that looks."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.names = count()
        self.other = Client(url, label="other")
        self.renew()

    def renew(self) -> None:
        """A fresh client, as an interrupt may have left the former one inside of something."""
        former = getattr(self, "client", None)
        if former is not None:
            former.close()
        self.client = Client(self.url, label="ours")
        self.client.lock("warm").acquire().release()

    def prepare(self, work: Callable[[Room], None]) -> None:
        """What the other does before it: detaches a hold, holds a name."""
        self.token, self.soon = "", lambda: None
        if work is adopted:
            # Each time another name, as one that isn't adopted stays for its ttl.
            self.token = self.other.lock(f"x{next(self.names)}").acquire().detach()
        elif work is in_the_line:
            self.soon = threading.Timer(0.002, self.other.lock("x").acquire().release).start
        elif work is in_vain and not self.other.lock("y").locked():
            self.other.lock("y").acquire()

    def left(self, moment: float = LEFT_S) -> int:
        """Claims of our client that are there, once the keeper has had a moment."""
        begun = boottime()
        while True:
            over = later(begun, moment)
            lines = self.other.inspect()
            ours = [c for line in lines for c in line.claims if c.owner.endswith(":ours")]
            if not ours or over:
                return len(ours)
            time.sleep(0.001)

    def gate_is_free(self) -> bool:
        """Does nobody stay in the gate? (Our keeper may be passing it.)"""
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


#: Where an interrupt strikes in a finalizer, the interpreter can but complain.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def room(url: str) -> Iterator[Room]:
    one = Room(url)
    # Holds that an interrupt has taken away from everybody warn, as they should.
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
    """How many ``with`` statements are left in it."""
    return 2 if work in (with_reentrant, with_readers) else 1


@pytest.mark.usual(5)
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_an_interrupt_at_each_point_in_turn_leaves_nothing(
    work: Callable[[Room], None], room: Room
) -> None:
    def do() -> None:
        work(room)

    # Given all the points at which the interpreter looks for signals in this work
    def counted() -> int:
        room.prepare(work)
        return points(do)

    many = min(counted(), counted())  # on a busy machine a wait has more of them
    chance = dice(work.__name__)
    numbers = range(1, many + 1)
    some = numbers if FULL else sorted(chance.sample(numbers, min(many, 20)))
    not_begun, left, struck = [], [], 0
    for number in some:
        # When Ctrl-C strikes there
        room.prepare(work)
        with contextlib.suppress(KeyboardInterrupt), Strike(number) as strike:
            do()
        struck += bool(strike.where)
        # Then a moment later nothing is left, and the gate is free
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
    """A real Ctrl-C after so many seconds: the signal is sent from another process's clock.

    And again after some more: the interpreter only reports one that strikes while it collects
    garbage, in a ``__del__``, and goes on. Whoever pressed the keys presses them again.
    """
    former = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, after, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def test_real_signals_at_random_moments_leave_nothing_and_no_overlap(room: Room) -> None:
    # Given two other threads that want the same name all the time, and count who is inside
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
            # When a signal strikes somewhere in acquire, in the body or in release
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
            # Then nothing of ours is left
            if room.left(LATER_S if where in NOT_BEGUN else LEFT_S):
                assert where in NOT_BEGUN, f"a claim was left by signal {struck}, in {where}"
                room.renew()
    finally:
        over.set()
        for thread in rivals:
            thread.join(20)
    # And nobody overlapped, and the gate is free
    print(f"{struck} signals")
    assert struck >= times(200, 60)
    assert overlaps == []
    assert room.gate_is_free()
    assert room.left() == 0


def test_interrupts_inside_the_file_mutex_leave_it_free(room: Room) -> None:
    # Given the functions in which a verb stands inside the gate
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
                # When Ctrl-C strikes there, at each point
                room.prepare(work)
                with contextlib.suppress(KeyboardInterrupt), Strike(number, function=function) as s:
                    work(room)
                if not s.where:
                    break
                struck += 1
                # Then the gate is free at once, and a moment later nothing is left
                assert room.gate_is_free(), s.where
                assert room.left() == 0, s.where
    print(f"{struck} strikes inside the gate")
    assert struck > 30
