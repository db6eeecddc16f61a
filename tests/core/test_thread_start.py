"""A thread that finds no memory ends before it begins; no caller waits for it without a limit."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client
from holdfast.aio import AsyncClient
from holdfast.errors import HoldfastError
from holdfast.runtime.blocking import boottime
from holdfast.runtime.starting import blocking as thread
from holdfast.sql.blocking import bound
from holdfast.stores.zookeeper.blocking.alarm import Alarm
from holdfast.testing import lag
from tests.core.bounded import bounded
from tests.servers.process import until

SOON_S = 0.2


@pytest.fixture
def stillborn(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """A switch: while it is on, each new thread ends before it begins, like one without memory."""
    start: Any = getattr(threading, "_start_joinable_thread", None)
    name = "_start_joinable_thread" if start else "_start_new_thread"
    start = getattr(threading, name)
    lag.watch()  # whose thread is started before
    monkeypatch.setattr(thread, "START_S", SOON_S)

    def die(*given: Any, **more: Any) -> Any:
        def nothing() -> None:
            """Ends immediately."""

        return start(nothing, *given[1:], **more)

    def switch(on: bool) -> None:
        monkeypatch.setattr(threading, name, die if on else start)

    return switch


def test_the_start_of_a_thread_that_ends_before_it_begins_fails_in_time(
    stillborn: Callable[[bool], None],
) -> None:
    ran: list[int] = []
    stillborn(True)
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match="ended before it began"):
        thread.DaemonThread(target=ran.append, args=(1,)).start()
    assert time.monotonic() - begun < SOON_S + 2 + lag.since(begun)
    stillborn(False)
    other = thread.DaemonThread(target=ran.append, args=(2,))
    other.start()
    other.join(10)
    assert ran == [2]
    assert other.daemon


def test_a_thread_that_begins_after_it_was_given_up_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[int] = []
    late = thread.DaemonThread(target=ran.append, args=(1,))
    bootstrap, go = late._bootstrap, threading.Event()

    def wait() -> None:
        go.wait(10)
        bootstrap()

    monkeypatch.setattr(late, "_bootstrap", wait)
    monkeypatch.setattr(thread, "START_S", SOON_S)
    with pytest.raises(RuntimeError):
        late.start()
    go.set()
    late._started.wait(10)
    late.join(10)
    assert ran == []


@bounded
async def test_an_event_loop_continues_when_the_store_thread_cannot_start(
    stillborn: Callable[[bool], None], tmp_path: Path
) -> None:
    async with AsyncClient(f"sqlite:///{tmp_path}/locks") as client:
        stillborn(True)
        with pytest.raises((HoldfastError, RuntimeError)):
            await client.lock("x").acquire(blocking=False)
        stillborn(False)
        async with client.lock("x", timeout=10) as hold:
            hold.check()


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Interrupt the start of the next thread whose name is in this list, after it has begun."""
    names: list[str] = []
    start = threading.Thread.start

    def interrupt(one: threading.Thread) -> None:
        start(one)
        if one.name in names:
            names.remove(one.name)
            until(one._decided.locked, "it has begun", 10)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupt)
    return names


def _named(name: str) -> set[threading.Thread]:
    """Return the threads of this name; threads of closed clients can end at any time."""
    return {one for one in threading.enumerate() if one.name == name}


def test_an_interrupt_while_the_renewer_starts_leaves_one_renewer(interrupted: list[str]) -> None:
    before = _named("holdfast-keeper")
    with Client("memory://one-keeper") as client:
        interrupted.append("holdfast-keeper")
        with pytest.raises(KeyboardInterrupt):
            client.lock("a", ttl=3).acquire()
        assert not interrupted
        with client.lock("b", ttl=3) as hold:
            assert len(_named("holdfast-keeper") - before) == 1
            deadline = hold._lease.deadline
            until(lambda: hold._lease.deadline > deadline, "it is renewed")


@bounded
async def test_an_interrupt_while_the_worker_of_a_store_starts_leaves_one_worker(
    interrupted: list[str], tmp_path: Path
) -> None:
    before = _named("holdfast-sqlite")

    async with AsyncClient(f"sqlite:///{tmp_path}/locks") as client:
        interrupted.append("holdfast-sqlite")
        with pytest.raises(KeyboardInterrupt):
            await client.lock("x").acquire(blocking=False)
        assert not interrupted
        async with client.lock("y", timeout=10) as hold:
            hold.check()
            assert len(_named("holdfast-sqlite") - before) == 1


def test_an_alarm_whose_thread_could_not_start_once_rings_with_the_next(
    stillborn: Callable[[bool], None],
) -> None:
    rung = threading.Event()
    alarm = Alarm(rung.set)
    stillborn(True)
    with pytest.raises(RuntimeError):
        alarm.at(boottime())
    stillborn(False)
    alarm.at(boottime())
    try:
        assert rung.wait(20)
    finally:
        alarm.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_alarm_whose_thread_is_ended_by_its_call_calls_again() -> None:
    class Called:
        calls, again = 0, threading.Event()

        def call(self) -> None:
            self.calls += 1
            if self.calls == 1:
                raise SystemExit
            self.again.set()

    one = Called()
    alarm = Alarm(one.call)
    alarm.at(boottime())
    try:
        assert one.again.wait(20)
    finally:
        alarm.stop()


def test_a_time_limit_whose_thread_cannot_start_blocks_no_other_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch, starting, go = bound._Watch(), threading.Event(), threading.Event()
    monkeypatch.setattr(bound, "_watch", watch)

    def start(one: threading.Thread) -> None:
        if one.name != "holdfast-bound":
            begin(one)
            return
        starting.set()
        assert go.wait(20)
        raise RuntimeError("can't start new thread")

    begin = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start)
    near, far = socket.socketpair()

    def limit() -> None:
        with bound.Watched(near, time.monotonic() + 60):
            pass

    with near, far:
        first, second = (threading.Thread(target=limit, daemon=True) for _ in range(2))
        try:
            first.start()
            assert starting.wait(20)
            second.start()
            second.join(5)
            assert not second.is_alive()
        finally:
            go.set()
        first.join(20)
    assert not watch._running
