"""A finalizer or signal handler that runs on a thread inside its store: neither waits there."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from holdfast import AsyncClient, Client, NotSupported
from holdfast.runtime.blocking import run_sync

#: Maximum seconds for a call inside a store. Without a refusal it would wait longer, or hang.
AT_ONCE_S = 5.0


@pytest.fixture(params=["memory", "sqlite"])
def locks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    url = "memory://inside" if request.param == "memory" else f"sqlite://{tmp_path}/l.db"
    with Client(url) as client:
        yield client


async def verb(locks: Client, act: Callable[[], object]) -> None:
    """A verb of the store that calls this while it is inside."""
    port: Any = locks._ctx.store._port  # type: ignore[attr-defined]
    if hasattr(port, "space"):
        port.call(lambda lines, now: act())
    else:
        port.engine._inside(5.0, lambda files, now: act())


def inside(locks: Client, act: Callable[[], object]) -> None:
    """Call this in a verb of the store, on a thread that is abandoned if it hangs."""
    raised: list[BaseException] = []

    def main() -> None:
        try:
            run_sync(verb(locks, act))
        except BaseException as failure:
            raised.append(failure)

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    thread.join(AT_ONCE_S)
    assert not thread.is_alive(), "it waits inside the store"
    if raised:
        raise raised[0]


def until(done: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until this returns a true value."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.005)


class Cycle:
    """An object in a reference cycle, which only the garbage collector can free."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.me = self


def jobs(locks: Client) -> Iterator[Any]:
    return locks.queue("q", retry_delay=0.01).consume(timeout=0)


def delivery(locks: Client) -> Iterator[Any]:
    with locks.queue("q").take(timeout=0) as job:  # type: ignore[union-attr]
        yield job


def lock(locks: Client) -> Iterator[Any]:
    with locks.lock("x") as hold:
        yield hold


def hold(locks: Client) -> Iterator[Any]:
    with locks.lock("x").acquire() as one:
        yield one


def several(locks: Client) -> Iterator[Any]:
    with locks.all("x", "y") as one:
        yield one


def several_held(locks: Client) -> Iterator[Any]:
    with locks.all("x", "y").acquire() as one:
        yield one


@pytest.mark.parametrize("make", [jobs, delivery, lock, hold, several, several_held])
def test_a_generator_collected_inside_the_store_releases_its_claims(
    locks: Client, make: Callable[[Client], Iterator[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda news: raised.append(news.exc_value))
    # Given a generator that holds something, and that only the collector can reach
    locks.queue("q").put("a", group="g")
    generator = make(locks)
    next(generator)
    Cycle(generator)
    del generator
    # When the collector finds it while its thread is inside the store
    inside(locks, gc.collect)
    assert raised == [], "it called the store, which refused"
    # Then the thread comes out, and others can get what the generator held
    if make in (jobs, delivery):
        with locks.queue("q").take(timeout=20) as again:  # type: ignore[union-attr]
            assert again.payload == "a"
    else:
        until(lambda: locks.inspect() == [])
        with locks.all("x", "y", timeout=20):
            pass


@pytest.mark.parametrize("opened", [True, False])
def test_another_client_of_the_same_file_is_refused_inside_the_store(
    tmp_path: Path, opened: bool
) -> None:
    url = f"sqlite://{tmp_path}/l.db"
    with Client(url) as locks, Client(url) as other:
        locks.lock("warm").acquire().release()
        if opened:
            other.lock("warm").acquire().release()

        def act() -> None:
            with pytest.raises(NotSupported, match="signal handler"):
                other.lock("x").acquire(timeout=60)

        inside(locks, act)
        # And after the verb, the other client works
        with other.lock("x", timeout=20):
            pass


def test_a_generator_collected_in_the_store_of_a_loop_frees_its_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda news: raised.append(news.exc_value))
    url = f"sqlite://{tmp_path}/l.db"

    async def main(locks: Client) -> None:
        async with AsyncClient(url) as client:
            await client.lock("warm").acquire(timeout=20)
            port: Any = client._ctx.store._port  # type: ignore[attr-defined]
            generator = lock(locks)
            next(generator)
            Cycle(generator)
            del generator
            # When the collector finds it while the thread of the loop is inside
            act = partial(port.engine._inside, 5.0, lambda files, now: gc.collect())
            with caplog.at_level("WARNING"):
                await port.call(lambda within: act(), AT_ONCE_S)

    with Client(url) as locks:
        asyncio.run(main(locks))
        # Then it called nothing, and others can get what the generator held
        assert raised == [], "it called the store, which refused"
        assert "could not be released" not in caplog.text
        until(lambda: locks.inspect("x", exact=True) == [])


@pytest.mark.parametrize("call", ["acquire", "with", "release"])
def test_a_signal_handler_that_runs_inside_the_store_is_refused_at_once(
    locks: Client, call: str
) -> None:
    held = locks.lock("held").acquire()

    def act() -> None:
        if call == "acquire":
            locks.lock("x").acquire(timeout=60)
        elif call == "with":
            with locks.lock("x", timeout=60):
                raise AssertionError("the store was entered twice")
        else:
            held.release()

    def refused() -> None:
        begun = time.monotonic()
        with pytest.raises(NotSupported, match="signal handler"):
            act()
        assert time.monotonic() - begun < AT_ONCE_S

    # When a signal arrives on the thread that is inside
    def handler(number: int, frame: FrameType | None) -> None:
        inside_main.append(number)
        refused()

    inside_main: list[int] = []
    former = signal.signal(signal.SIGUSR1, handler)
    try:
        run_sync(verb(locks, lambda: signal.raise_signal(signal.SIGUSR1)))
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert inside_main
    # Then nothing is left in the line, and the client still works
    with locks.lock("x", timeout=20):
        pass
    held.release()
    until(lambda: locks.inspect() == [])
