"""The file mutex: a bounded wait, a name for the process that holds it, and no way to leave it
locked."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from holdfast.core.model import Held
from holdfast.errors import NotSupported, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.runtime.starting.blocking import DaemonThread
from holdfast.testing import lag
from holdfast.testing.faults import dice
from tests.fenced.process import Child
from tests.servers.process import until
from tests.stores.sqlite.desk import Desk, claim


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


def mutex_is_free(path: Path) -> bool:
    """Return True if no process has locked the file mutex."""
    if not path.exists():
        return True
    with open(path.with_name(path.name + ".d") / "gate") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def mutex_becomes_free(path: Path) -> None:
    end = time.monotonic() + 5
    while not mutex_is_free(path):
        assert time.monotonic() < end, "the file mutex stays locked"


def test_without_new_threads_a_locked_file_mutex_is_awaited(
    path: Path, monkeypatch: pytest.MonkeyPatch, here: Desk
) -> None:
    # Given a process that can't start a thread, like CPython 3.12 while it exits
    def refuse(thread: DaemonThread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

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


def test_the_error_of_a_new_client_names_the_stopped_holder_of_the_file_mutex(
    path: Path, desk: Callable[..., Desk]
) -> None:
    with sitting(path) as pid:
        with pytest.raises(StoreUnavailable, match=f"process {pid} .*stopped"):
            desk().join(claim(), within=0.1)
        os.kill(pid, signal.SIGCONT)
    # Then it works as soon as this process has released the mutex
    assert desk().free()


def test_a_waiter_that_gave_up_leaves_the_file_mutex_to_others(path: Path, here: Desk) -> None:
    # Given a caller that gives up while its helper thread waits for the kernel lock
    assert here.free()
    for _ in range(20):
        with sitting(path) as pid:
            with pytest.raises(StoreUnavailable):
                here.join(claim(), within=0.02)
            # When the stopped process continues, and the kernel grants the lock to that thread
            os.kill(pid, signal.SIGCONT)
        # Then the file mutex doesn't stay locked
        mutex_becomes_free(path)
        assert here.free()


def test_giving_up_at_the_moment_of_the_grant_is_one_or_the_other(path: Path, here: Desk) -> None:
    # Given a caller whose time limit ends at about the time when the file mutex is released
    assert here.free()
    chance = dice("giving up")
    gate = here.engine._files.gate
    other = os.open(gate.path, os.O_RDWR)
    entered, about = 0, 0.004
    for _ in range(200):
        fcntl.flock(other, fcntl.LOCK_EX)
        span = about + 0.004 * chance.random()
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
            assert not mutex_is_free(path)
            gate.exit()
        opener.join()
        # ...or no process holds it
        mutex_becomes_free(path)
    print(f"{entered} of 200 came in")
    os.close(other)
    assert 10 <= entered <= 190


def test_a_thread_that_must_wait_for_another_gives_up_in_time(path: Path, here: Desk) -> None:
    # Given a client with a thread that waits for the file mutex
    assert here.free()
    with sitting(path) as pid:
        first = threading.Thread(target=here.free)
        first.start()
        until(lambda: here.engine.inside, "the first thread waits", 5.0)
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


def test_a_signal_handler_that_calls_back_in_is_refused(here: Desk) -> None:
    # Given a signal handler that uses the store, and that runs inside a verb
    assert here.free()
    told: list[BaseException] = []

    def handler(number: int, frame: FrameType | None) -> None:
        try:
            here.free()
        except NotSupported as refused:  # which no client tries again
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
