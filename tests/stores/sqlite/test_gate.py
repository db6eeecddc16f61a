"""The file mutex: a bounded wait, a name for the process that holds it, and no way to leave it
locked."""

from __future__ import annotations

import fcntl
import gc
import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from holdfast.core.model import Held, Waiting
from holdfast.errors import NotSupported, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.runtime.starting.blocking import DaemonThread
from holdfast.testing import lag
from tests.fenced.process import Child
from tests.stores.sqlite.desk import Desk, claim

lag.watch()

SEED = random.SystemRandom().randrange(1 << 32)


@contextmanager
def sitting(path: Path) -> Iterator[int]:
    """Stop a process that holds the file mutex, and yield its pid."""

    def sits(child: Child) -> None:
        here = Desk(path)

        def work(files: object, now: float) -> None:
            child.say("inside")
            os.kill(os.getpid(), signal.SIGSTOP)

        here.engine._inside(5.0, work)
        child.say("out")

    with Child(sits) as child:
        child.hear()
        child.stopped()
        yield child.pid


def gate_is_free(path: Path) -> bool:
    """Return True if no process has locked the file mutex."""
    if not path.exists():
        return True
    with open(path.with_name(path.name + ".d") / "gate") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_without_new_threads_a_locked_file_mutex_is_awaited(
    path: Path, desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a process that can't start a thread, like CPython 3.12 while it exits
    def refuse(thread: DaemonThread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    here = desk()
    assert here.free()
    with open(path.with_name("locks.db.d") / "gate") as gate:
        # When the file mutex is locked for a moment
        fcntl.flock(gate, fcntl.LOCK_EX)
        opens = threading.Timer(0.2, fcntl.flock, (gate, fcntl.LOCK_UN))
        opens.start()
        monkeypatch.setattr(DaemonThread, "start", refuse)
        # Then the request succeeds
        assert isinstance(here.join(claim(), within=10.0), Held)
        opens.join()


def test_a_process_stopped_inside_is_named_and_waits_end_in_time(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given an open store, and a process that was stopped while it holds the file mutex
    here = desk()
    assert here.free()
    with sitting(path) as pid:
        for within in (0.002, 0.3):
            # When a verb gets this time limit
            begun = boottime()
            with pytest.raises(StoreUnavailable) as told:
                here.join(claim(), within=within)
            # Then it ends in time, and its error names the process to continue
            assert within <= boottime() - begun < within + 0.25 + lag.since(begun)
            assert f"process {pid}" in str(told.value)
            assert f"kill -CONT {pid}" in str(told.value)
            assert "gate" in str(told.value)
        # When the process continues
        os.kill(pid, signal.SIGCONT)
        # Then all verbs work again
        assert here.free()


def test_a_new_client_gets_the_same_error(path: Path, desk: Callable[..., Desk]) -> None:
    with sitting(path) as pid:
        # When another client opens the store while a stopped process holds the file mutex
        with pytest.raises(StoreUnavailable, match=f"process {pid} .*stopped"):
            desk().join(claim(), within=0.1)
        os.kill(pid, signal.SIGCONT)
    # Then it works as soon as this process has released the mutex
    assert desk().free()


def test_a_waiter_that_gave_up_leaves_the_file_mutex_to_others(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a caller that gives up while its helper thread waits for the kernel lock
    here = desk()
    assert here.free()
    for _ in range(20):
        with sitting(path) as pid:
            with pytest.raises(StoreUnavailable):
                here.join(claim(), within=0.02)
            # When the stopped process continues, and the kernel grants the lock to the helper
            # thread
            os.kill(pid, signal.SIGCONT)
        # Then the file mutex doesn't stay locked
        end = time.monotonic() + 5
        while not gate_is_free(path):
            assert time.monotonic() < end, "the gate stays locked"
        assert here.free()


def test_giving_up_at_the_moment_of_the_grant_is_one_or_the_other(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a caller whose time limit ends at about the time when the file mutex is released
    here = desk()
    assert here.free()
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    gate = here.engine._files.gate
    other = os.open(gate.path, os.O_RDWR)
    entered, about = 0, 0.004
    for _ in range(200):
        fcntl.flock(other, fcntl.LOCK_EX)
        span = about + 0.004 * dice.random()
        opener = threading.Timer(0.006, fcntl.flock, (other, fcntl.LOCK_UN))
        opener.start()
        # When both happen at the same time
        try:
            gate.enter(span)
        except StoreUnavailable:
            about *= 1.05
        else:
            entered += 1
            about *= 0.95  # where the machine is slow, the opener is late as well
            # Then the caller holds the file mutex alone...
            assert not gate_is_free(path)
            gate.exit()
        opener.join()
        # ...or no process holds it
        end = time.monotonic() + 5
        while not gate_is_free(path):
            assert time.monotonic() < end, "the gate stays locked"
    print(f"{entered} of 200 came in")
    os.close(other)
    assert 10 <= entered <= 190


def test_threads_of_one_client_hold_one_at_a_time(desk: Callable[..., Desk]) -> None:
    # Given eight threads on one client and one name
    here = desk()
    inside: list[int] = []
    fences: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            wanted = claim()
            fence = here.hold(wanted)
            inside.append(number)
            assert inside == [number]
            fences.append(fence)
            inside.remove(number)
            assert here.leave(wanted, fence)

    # When all acquire the name repeatedly
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    # Then they held it one after the other, in the order of their fences
    assert len(fences) == 400
    assert fences == sorted(fences)
    assert here.lines() == []


def test_a_thread_that_must_wait_for_another_gives_up_in_time(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a client with a thread that waits for the file mutex
    here = desk()
    assert here.free()
    with sitting(path) as pid:
        first = threading.Thread(target=here.free)
        first.start()
        end = time.monotonic() + 5
        while here.engine.inside == 0:
            assert time.monotonic() < end
        # When another thread of this client sends a request with less time
        begun = boottime()
        with pytest.raises(StoreUnavailable, match=f"process {pid}"):
            here.join(claim(), within=0.1)
        # Then it gets the error in time
        assert boottime() - begun < 0.35 + lag.since(begun)
        # And the first thread gets the file mutex after its release
        os.kill(pid, signal.SIGCONT)
        first.join(20)
        assert not first.is_alive()
    assert here.free()


def test_a_signal_handler_that_calls_back_in_is_refused(desk: Callable[..., Desk]) -> None:
    # Given a signal handler that uses the store, and that runs inside a verb
    here = desk()
    assert here.free()
    told: list[BaseException] = []

    def handler(number: int, frame: FrameType | None) -> None:
        try:
            here.free()
        except NotSupported as refused:  # which nobody tries again
            told.append(refused)

    def work(files: object, now: float) -> str:
        signal.raise_signal(signal.SIGUSR1)
        return "done"

    former = signal.signal(signal.SIGUSR1, handler)
    try:
        # When the signal arrives
        assert here.engine._inside(5.0, work) == "done"
    finally:
        signal.signal(signal.SIGUSR1, former)
    # Then the handler gets an error that names the cause, and the verb is finished
    assert len(told) == 1
    assert "signal handler" in str(told[0])
    assert here.free()


@contextmanager
def striking_after(seconds: float) -> Iterator[None]:
    """Raise Ctrl-C after ``seconds``, wherever the thread is then, but never after the block."""
    armed = [True]

    def strike(number: int, frame: FrameType | None) -> None:
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, strike)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        armed.clear()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


@pytest.mark.filterwarnings("ignore")
def test_an_interrupt_anywhere_in_a_verb_leaves_nothing_locked_and_nothing_held(
    path: Path, desk: Callable[..., Desk]
) -> None:
    # Given a client whose verbs are interrupted at random moments, by real signals
    here, there = desk(), desk()
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    struck = 0
    for turn in range(300):
        contended = turn % 2 == 1
        held, wanted = claim(), claim()
        fence = there.hold(held) if contended else 0
        ticket = 0
        try:
            with striking_after(dice.random() * 0.000_4 + 1e-6):
                answer = here.join(wanted)
                assert isinstance(answer, Held | Waiting)
                ticket = answer[0]
                here.leave(wanted, ticket)
                here.join(claim("other"), wait=False)
        except KeyboardInterrupt:
            struck += 1
        # Then the file mutex is free
        assert gate_is_free(path), f"turn {turn}"
        assert here.engine.inside == 0
        # And after the core has withdrawn the interrupted claim, the claim is gone
        here.store.unlisten(wanted)
        here.leave(wanted, ticket, suspect=True)
        names = [c.fence for line in there.lines("refund") for c in line.claims]
        assert names == ([fence] if contended else []), f"turn {turn}"
        if contended:
            assert there.leave(held, fence)
        for line in here.lines("other"):
            for record in line.claims:
                # The interrupt lost the id of this claim, so the test breaks the hold by its fence.
                assert here.engine.break_("other", record.fence, 5.0)
    print(f"{struck} of 300 turns were struck")
    assert struck >= 60
    assert here.lines() == []
    with warnings.catch_warnings():
        # A coroutine or socket that was interrupted between two lines is garbage, and does no harm.
        warnings.simplefilter("ignore")
        gc.collect()


def test_the_file_mutex_of_a_killed_process_is_free_again(
    path: Path, desk: Callable[..., Desk]
) -> None:
    here = desk()
    assert here.free()
    # Given a process that was stopped while it holds the file mutex
    with sitting(path) as pid:
        # When it is killed there
        os.kill(pid, signal.SIGKILL)
    # Then another client gets the file mutex immediately
    begun = boottime()
    assert here.free()
    assert boottime() - begun < 0.25 + lag.since(begun)
