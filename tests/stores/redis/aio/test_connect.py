"""Connections under asyncio: protocols and parsers, refused subscriptions, a cancelled connect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncClient, StoreUnavailable
from holdfast.stores.redis.blocking import resp
from tests.servers.fixtures import NewRedis
from tests.stores.redis.aio.conftest import play, wire_of


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.01)


async def use(client: AsyncClient, name: str) -> None:
    """Hold a lock, let a waiter follow, and inspect the line."""
    async with client.lock(name) as hold:
        waiter = asyncio.create_task(client.lock(name).acquire())
        while not any(line.waiters for line in await client.inspect(name, exact=True)):
            await asyncio.sleep(0.001)
        assert await hold.extend()
    served = await asyncio.wait_for(waiter, 5)
    assert served.fence > hold.fence
    assert await served.release()
    assert await client.inspect(name, exact=True) == []  # others' names may begin so


@pytest.mark.parametrize("plain_parser", [False, True], ids=["hiredis", "own"])
def test_both_protocols_and_both_parsers(
    plain_parser: bool,
    protocol: str,
    redis_url: str,
    own_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if plain_parser:
        monkeypatch.setattr(resp, "_quick", None)
        monkeypatch.setattr("holdfast.stores.redis.aio.wire.Push", resp.PlainPush)

    async def main() -> None:
        async with AsyncClient(f"{redis_url}?protocol={protocol}") as client:
            await asyncio.gather(*[use(client, f"{own_name}:{at}") for at in range(20)])
            assert isinstance(wire_of(client)._reader, resp.Parser) is plain_parser

    play(main)


def test_a_user_without_the_right_to_subscribe_can_still_wait(
    new_redis: NewRedis, own_name: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_redis(users=("user app on >secret ~holdfast:* resetchannels +@all",))

    async def main() -> None:
        url = server.url_for("app", "secret")
        async with AsyncClient(f"{url}?protocol={protocol}") as client:
            await use(client, own_name)
            await use(client, own_name)

    with caplog.at_level(logging.WARNING, "holdfast"):
        play(main)
    assert caplog.text.count("refused the subscription") == 1


def test_a_right_to_subscribe_that_is_given_later_is_of_use(
    new_redis: NewRedis,
    own_name: str,
    protocol: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.stores.redis.aio.port.DEAF_S", 0.5)
    server = new_redis(users=("user app on >secret ~holdfast:* resetchannels +@all",))

    async def main() -> None:
        url = server.url_for("app", "secret")
        async with AsyncClient(f"{url}?protocol={protocol}") as client:
            hold = await client.lock(own_name).acquire()
            waiter = asyncio.create_task(client.lock(own_name).acquire(timeout=30))
            await until(lambda: "refused the subscription" in caplog.text)
            port: Any = client._ctx.store._port  # type: ignore[attr-defined]
            assert port._ear is None
            # When the right is granted, then the waiter listens
            server.ask("ACL", "SETUSER", "app", "&holdfast:*")
            await until(lambda: port._ear is not None)
            await hold.release()
            assert await (await waiter).release()

    play(main)


def test_a_server_that_became_a_replica_is_left_for_a_new_connection(
    new_redis: NewRedis, own_name: str
) -> None:
    server = new_redis()

    async def main() -> None:
        async with AsyncClient(server.url) as client:
            async with client.lock(own_name):
                wire: Any = wire_of(client)
            server.ask("REPLICAOF", "127.0.0.1", "1")
            with pytest.raises(StoreUnavailable, match="is a replica"):
                await client.lock(own_name).acquire(timeout=0.3)
            assert wire.over

    play(main)


def test_a_connect_cancelled_before_it_begins_is_started_again(
    redis_url: str, own_name: str
) -> None:
    async def main() -> None:
        async with AsyncClient(redis_url) as client:
            # Given a cancellation of every task of the loop, as at the end of a test
            waiting = asyncio.create_task(client.lock(own_name).acquire())
            await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            # Then the client still works
            async with client.lock(own_name, timeout=5):
                pass

    play(main)
