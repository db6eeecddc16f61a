"""A server that refuses notifications of changes is asked again, so that clients stop polling."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncClient, Client
from holdfast.dialects import aio, blocking
from holdfast.stores.redis.library import packed
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.servers.redis_server import RedisServer

FACES = pytest.mark.parametrize("face", ["threads", "asyncio"])
#: A Redis user with all rights but that to receive notifications of changes.
DEAF = "user app on >secret ~* &* +@all -client +client|setname"
#: A request with the reply of a server that runs a script for too long.
BUSY = (b"EVAL", b"return redis.error_reply('BUSY Redis is busy running a script')", b"0")


def wait_for(face: str, url: str, meanwhile: Callable[[], None]) -> None:
    """Wait for the key that another client holds, and run ``meanwhile``, which frees the key."""

    async def on_a_loop() -> None:
        async with AsyncClient(url) as locks:
            waiter = asyncio.create_task(locks.lock("x").acquire(timeout=60))
            await asyncio.to_thread(meanwhile)
            assert await waiter

    async def with_a_thread() -> None:
        with Client(url) as locks:
            waiter = asyncio.create_task(asyncio.to_thread(locks.lock("x").acquire, timeout=60))
            await asyncio.to_thread(meanwhile)
            assert await waiter

    asyncio.run(on_a_loop() if face == "asyncio" else with_a_thread())


def tells(server: RedisServer) -> Callable[[], bool]:
    """Return a function that tests if any connection receives notifications of changes."""
    return lambda: int(server.info("clients")["tracking_clients"]) > 0


@FACES
def test_a_client_without_notifications_polls_and_warns_once(
    face: str,
    new_redis: NewRedis,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A right that is granted later takes effect without a new client or connection."""
    monkeypatch.setattr("holdfast.dialects.telling.DEAF_S", 0.4)
    server = new_redis(users=(DEAF,))
    address = server.url_for("app", "secret").replace("redis://", "redis+plain://")
    server.ask("SET", "x", "theirs", "PX", 50_000)

    def meanwhile() -> None:
        until(lambda: "refuses notifications" in caplog.text, "a warning is there")
        time.sleep(2.0)  # it is asked again, and refuses again
        assert caplog.text.count("refuses notifications") == 1
        server.ask("ACL", "SETUSER", "app", "+client")
        until(tells(server), "the server reports changes")
        server.ask("DEL", "x")

    wait_for(face, address, meanwhile)


@FACES
def test_a_refusal_that_passes_is_forgotten_with_it(
    face: str,
    new_redis: NewRedis,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusals = refuse_once(monkeypatch)
    server = new_redis()
    server.ask("SET", "x", "theirs", "PX", 50_000)

    def meanwhile() -> None:
        until(lambda: not refusals, "the server has refused")
        until(tells(server), "the server reports changes")
        server.ask("DEL", "x")

    wait_for(face, server.url.replace("redis://", "redis+plain://"), meanwhile)
    assert "refuses notifications" not in caplog.text


def refuse_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make the first request for notifications fail as busy; then the list is empty."""
    left = ["refuse"]
    ask, command = blocking.WatchingLink.ask, aio.WatchingWire.command

    def asked(link: Any, wire: bytes, *when: float) -> Any:
        if b"TRACKING" in wire and left:
            left.clear()
            wire = packed(*BUSY)
        return ask(link, wire, *when)

    def sent(wire: Any, *words: bytes, within: float) -> Any:
        if b"TRACKING" in words and left:
            left.clear()
            words = BUSY
        return command(wire, *words, within=within)

    monkeypatch.setattr(blocking.WatchingLink, "ask", asked)
    monkeypatch.setattr(aio.WatchingWire, "command", sent)
    return left
