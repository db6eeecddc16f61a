"""A connection whose start is interrupted, or gets no thread: the client goes on, nothing stays."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable

import pytest

from holdfast import AsyncClient, Client, HoldfastError
from holdfast.runtime.blocking import Bell, boottime
from tests.stores.zookeeper.conftest import MakeClient, eventually

Trouble = Callable[[Callable[[], None]], None]
#: For so long a connection is waited for.
LONG_S = 20.0


def refused(_: Callable[[], None]) -> None:
    """There is no thread to be had."""
    raise RuntimeError("can't start new thread")


def before(start: Callable[[], None]) -> None:
    """A Ctrl-C arrives when the thread isn't started yet: signals reach the main thread alone."""
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
    start()


def after(start: Callable[[], None]) -> None:
    """A Ctrl-C arrives when the thread has just been started."""
    start()
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


@pytest.fixture(params=range(1, 5))
def strike(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """From now on the start of the first, second, ... thread is in trouble, once."""
    start = threading.Thread.start

    def arm(trouble: Trouble) -> None:
        count = itertools.count(1)

        def begin(thread: threading.Thread) -> None:
            if next(count) == request.param:
                trouble(lambda: start(thread))
            else:
                start(thread)

        monkeypatch.setattr(threading.Thread, "start", begin)

    return arm


@pytest.fixture
def nothing_left() -> Callable[[], None]:
    """No thread is there that wasn't there at first."""
    known = {*threading.enumerate()}
    return lambda: eventually(lambda: not {*threading.enumerate()} - known)


@pytest.mark.parametrize("trouble", [refused, before, after])
def test_a_thread_tries_again_and_leaves_no_connection(
    trouble: Trouble,
    strike: Callable[[Trouble], None],
    zookeeper_url: str,
    own_name: str,
    nothing_left: Callable[[], None],
) -> None:
    with Client(zookeeper_url) as client:
        strike(trouble)
        try:
            client.lock(own_name).acquire(timeout=5).release()
        except (HoldfastError, KeyboardInterrupt):  # never a bare RuntimeError
            client.lock(own_name).acquire(timeout=5).release()
    nothing_left()


@pytest.mark.parametrize("trouble", [refused, before, after])
def test_a_task_tries_again_and_leaves_no_connection(
    trouble: Trouble,
    strike: Callable[[Trouble], None],
    zookeeper_url: str,
    own_name: str,
    nothing_left: Callable[[], None],
) -> None:
    async def take(client: AsyncClient) -> None:
        await (await client.lock(own_name).acquire(timeout=5)).release()

    with asyncio.Runner() as runner:
        client = AsyncClient(zookeeper_url)
        strike(trouble)
        try:
            runner.run(take(client))
        except (HoldfastError, KeyboardInterrupt):  # never a bare RuntimeError
            runner.run(take(client))
        runner.run(client.close())
    nothing_left()


def test_a_thread_notices_a_connection_that_another_thread_noticed(
    new_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = new_client()._ctx.store._port  # type: ignore[attr-defined]
    wait, until = Bell.wait, boottime() + LONG_S

    def late(bell: Bell, seconds: float) -> bool:
        """The connection is made when it was looked for, and not waited for yet."""
        monkeypatch.undo()
        eventually(lambda: port._driver.connected)
        port._reach(until)  # another thread that has waited, too
        return wait(bell, seconds)

    monkeypatch.setattr(Bell, "wait", late)
    assert port._reach(until).connected
    assert boottime() < until - LONG_S / 2
