"""A finalizer or signal handler that runs on a thread inside its store: neither waits there."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncClient, Client, NotSupported
from holdfast.runtime.blocking import run_sync
from tests.core.bounded import ended
from tests.servers.process import until

#: Maximum seconds for a call inside a store. Without a refusal it would wait longer, or hang.
AT_ONCE_S = 5.0


@pytest.fixture(params=["memory", "sqlite"])
def locks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    url = "memory://inside" if request.param == "memory" else f"sqlite://{tmp_path}/l.db"
    with Client(url) as client:
        yield client


@pytest.fixture
def raised(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The exceptions that finalizers raised: each one called the store, which refused."""
    found: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda news: found.append(news.exc_value))
    return found


async def verb(locks: Client, act: Callable[[], object]) -> None:
    """A verb of the store that calls this while it is inside."""
    port: Any = locks._ctx.store._port
    if hasattr(port, "space"):
        port.call(lambda lines, now: act())
    else:
        port.engine._inside(5.0, lambda files, now: act())


def inside(locks: Client, act: Callable[[], object]) -> None:
    """Call this in a verb of the store, on a thread that is abandoned if it hangs."""
    ended(lambda: run_sync(verb(locks, act)), AT_ONCE_S)


class Cycle:
    """An object in a reference cycle, which only the garbage collector can free."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.me = self


def jobs(locks: Client) -> Iterator[Any]:
    return locks.queue("q", retry_delay=0.01).consume(timeout=0)


#: What a ``with`` of a generator can be over.
HELD: dict[str, Callable[[Client], Any]] = {
    "delivery": lambda locks: locks.queue("q").take(timeout=0),
    "lock": lambda locks: locks.lock("x"),
    "hold": lambda locks: locks.lock("x").acquire(),
    "several": lambda locks: locks.all("x", "y"),
    "several held": lambda locks: locks.all("x", "y").acquire(),
}


def body(locks: Client, over: str) -> Iterator[Any]:
    with HELD[over](locks) as held:
        yield held


def begun(generator: Iterator[Any]) -> None:
    """Begin a generator that holds something, and that only the collector can reach then."""
    next(generator)
    Cycle(generator)


@pytest.mark.parametrize("over", ["jobs", *HELD])
def test_a_generator_collected_inside_the_store_releases_its_claims(
    locks: Client, over: str, raised: list[object]
) -> None:
    locks.queue("q").put("a", group="g")
    begun(jobs(locks) if over == "jobs" else body(locks, over))
    # When the collector finds it while its thread is inside the store
    inside(locks, gc.collect)
    assert raised == [], "it called the store, which refused"
    # Then the thread comes out, and others can get what the generator held
    if over in ("jobs", "delivery"):
        with locks.queue("q").take(timeout=20) as again:
            assert again.payload == "a"
    else:
        until(lambda: locks.inspect() == [], "they are free", 20)
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
    tmp_path: Path, raised: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite://{tmp_path}/l.db"

    async def main(locks: Client) -> None:
        async with AsyncClient(url) as client:
            await client.lock("warm").acquire(timeout=20)
            port: Any = client._ctx.store._port
            begun(body(locks, "lock"))
            # When the collector finds it while the thread of the loop is inside
            act = partial(port.engine._inside, 5.0, lambda files, now: gc.collect())
            with caplog.at_level("WARNING"):
                await port.call(lambda within: act(), AT_ONCE_S)

    with Client(url) as locks:
        asyncio.run(main(locks))
        # Then it called nothing, and others can get what the generator held
        assert raised == [], "it called the store, which refused"
        assert "could not be released" not in caplog.text
        until(lambda: locks.inspect("x", exact=True) == [], "it is free", 20)


@pytest.mark.parametrize("call", ["acquire", "with", "release"])
def test_a_signal_handler_that_runs_inside_the_store_is_refused_at_once(
    locks: Client, call: str
) -> None:
    held = locks.lock("held").acquire()
    took: list[float] = []

    def act() -> None:
        if call == "acquire":
            locks.lock("x").acquire(timeout=60)
        elif call == "with":
            with locks.lock("x", timeout=60):
                raise AssertionError("the store was entered twice")
        else:
            held.release()

    # When a signal arrives on the thread that is inside
    def handler(*_: object) -> None:
        at = time.monotonic()
        with pytest.raises(NotSupported, match="signal handler"):
            act()
        took.append(time.monotonic() - at)

    former = signal.signal(signal.SIGUSR1, handler)
    try:
        run_sync(verb(locks, lambda: signal.raise_signal(signal.SIGUSR1)))
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert took
    assert took[0] < AT_ONCE_S
    # Then nothing is left in the line, and the client still works
    with locks.lock("x", timeout=20):
        pass
    held.release()
    until(lambda: locks.inspect() == [], "they are free", 20)
