"""Two closes of one client: the second waits for the first, with a limit, and then continues."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from holdfast import Client, Loss
from holdfast.core import closing
from tests.servers.process import until

SOON_S = 20.0


def test_a_close_does_not_wait_without_a_limit_for_a_hanging_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(closing, "WAIT_S", 0.3)
    client, begun, go = Client("memory://hangs"), threading.Event(), threading.Event()
    hold = client.lock("x", ttl=60).acquire()
    store: Any = client._ctx.store
    ours = store.leave

    async def leave(*given: Any) -> bool:
        begun.set()
        assert go.wait(SOON_S)
        return bool(await ours(*given))

    monkeypatch.setattr(store, "leave", leave)
    first = threading.Thread(target=client.close)
    first.start()
    try:
        assert begun.wait(SOON_S)
        before = time.monotonic()
        client.close()
        assert time.monotonic() - before >= 0.3
        assert not client._ctx.ended
    finally:
        go.set()
        first.join(SOON_S)
    assert (client._ctx.ended, hold.lost) == (True, Loss.CLOSED)
    with Client("memory://hangs") as other:
        assert not other.inspect()


def test_a_waiting_close_continues_if_the_first_close_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, begun, go = Client("memory://goes-on"), threading.Event(), threading.Event()
    failed: list[BaseException] = []
    end, closed = client._ctx.store.close, []

    async def close() -> None:
        closed.append(threading.current_thread())
        if len(closed) == 1:
            begun.set()
            assert go.wait(SOON_S)
            raise KeyboardInterrupt
        await end()

    def interrupted() -> None:
        with pytest.raises(KeyboardInterrupt) as stop:
            client.close()
        failed.append(stop.value)

    monkeypatch.setattr(client._ctx.store, "close", close)
    first, second = threading.Thread(target=interrupted), threading.Thread(target=client.close)
    first.start()
    assert begun.wait(SOON_S)
    second.start()
    until(lambda: client._ctx.closing._latches, "the second one waits")
    go.set()
    for one in (first, second):
        one.join(SOON_S)
    assert (len(failed), closed, client._ctx.ended) == (1, [first, second], True)


def test_a_callback_that_closes_the_closing_client_does_not_wait() -> None:
    client, told = Client("memory://callback"), []

    def close(*_: object) -> None:
        before = time.monotonic()
        client.close()
        told.append(time.monotonic() - before)

    hold = client.lock("x", ttl=60, on_lost=close).acquire()
    client.close()
    assert len(told) == 1
    assert told[0] < closing.WAIT_S
    assert (client._ctx.ended, hold.lost) == (True, Loss.CLOSED)
    with Client("memory://callback") as other:
        assert not other.inspect()
