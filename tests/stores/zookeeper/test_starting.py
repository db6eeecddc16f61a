"""Connections whose start is interrupted or gets no thread: the client works, nothing is left."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable

import pytest

from holdfast import HoldfastError
from holdfast.runtime.blocking import Bell, boottime, run_sync
from holdfast.testing.faces import Face
from tests.stores.zookeeper.conftest import MakeClient, eventually

Trouble = Callable[[Callable[[], None]], None]
#: Maximum seconds to wait for a connection.
LONG_S = 20.0


def refused(_: Callable[[], None]) -> None:
    """No thread can be started."""
    raise RuntimeError("can't start new thread")


def before(start: Callable[[], None]) -> None:
    """Ctrl-C arrives before the thread is started. Only the main thread receives signals."""
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
    start()


def after(start: Callable[[], None]) -> None:
    """Ctrl-C arrives when the thread has just been started."""
    start()
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


@pytest.fixture(params=range(1, 5))
def strike(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes the start of one later thread fail: the first, second, ..."""
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


@pytest.mark.parametrize("trouble", [refused, before, after])
def test_a_client_tries_again_and_leaves_no_connection(
    trouble: Trouble,
    strike: Callable[[Trouble], None],
    face: Face,
    zookeeper_url: str,
    own_name: str,
) -> None:
    known = {*threading.enumerate()}
    # In the main thread, which receives the signals
    with asyncio.Runner() as runner:
        run = run_sync if face.name == "sync" else runner.run
        client = face.client(zookeeper_url)

        async def take() -> None:
            await (await client.lock(own_name).acquire(timeout=5)).release()

        strike(trouble)
        try:
            run(take())
        except (HoldfastError, KeyboardInterrupt):  # never a bare RuntimeError
            run(take())
        run(client.close())
    eventually(lambda: not {*threading.enumerate()} - known)


def test_a_thread_notices_a_connection_that_another_thread_noticed(
    new_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = new_client()._ctx.store._port  # type: ignore[attr-defined]
    wait, until = Bell.wait, boottime() + LONG_S

    def late(bell: Bell, seconds: float) -> bool:
        """Let the connection be made after the check for it and before the wait."""
        monkeypatch.undo()
        eventually(lambda: port._driver.connected)
        port._reach(until)  # another thread that has waited, too
        return wait(bell, seconds)

    monkeypatch.setattr(Bell, "wait", late)
    assert port._reach(until).connected
    assert boottime() < until - LONG_S / 2
