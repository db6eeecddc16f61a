"""Ways to connect under asyncio: logins, TLS, sockets, given clients, protocols and parsers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from holdfast import AsyncClient, ConfigError, StoreUnavailable
from holdfast.stores.redis.blocking import resp
from tests.servers.process import free_port
from tests.servers.redis_server import RedisServer
from tests.servers.tls import Certificate
from tests.stores.redis.aio.conftest import play, wire_of

NewRedis = Callable[..., RedisServer]


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


def test_by_unix_socket(shared_redis: RedisServer, own_name: str) -> None:
    async def main() -> None:
        async with AsyncClient(f"redis+unix://{shared_redis.socket}") as client:
            await use(client, own_name)

    play(main)


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


def test_by_tls(new_redis: NewRedis, certificate: Certificate, own_name: str) -> None:
    server = new_redis(tls=certificate)

    async def main() -> None:
        url = f"{server.tls_url}?ssl_ca_certs={certificate.certificate}"
        async with AsyncClient(url) as client:
            await use(client, own_name)
            # And with data that is longer than one TLS record
            names = [f"{own_name}:{at}:{'x' * 300}" for at in range(500)]
            holds = await asyncio.gather(*[client.lock(name).acquire() for name in names])
            assert len(await client.inspect(own_name)) == 500
            assert all(await asyncio.gather(*[hold.release() for hold in holds]))
        async with AsyncClient(server.tls_url) as stranger:
            with pytest.raises(ConfigError, match="ssl_ca_certs"):
                await stranger.lock(own_name).acquire(timeout=2)
        # And with a URL and a port that disagree about TLS
        async with AsyncClient(server.url.replace("redis://", "rediss://")) as wrong:
            with pytest.raises(StoreUnavailable, match="TLS"):
                await wrong.lock(own_name).acquire(timeout=2)
        async with AsyncClient(server.url_for(port=server.tls_port)) as wrong:
            with pytest.raises(StoreUnavailable, match="TLS"):
                await wrong.lock(own_name).acquire(timeout=0.5)

    play(main)


def test_with_a_password(new_redis: NewRedis, own_name: str) -> None:
    server = new_redis(password="sesame")

    async def main() -> None:
        async with AsyncClient(server.url) as client:
            await use(client, own_name)
            assert "sesame" not in repr(client)
        for url in (server.url.replace("sesame", "basil"), f"redis://127.0.0.1:{server.port}"):
            async with AsyncClient(url) as client:
                with pytest.raises(ConfigError, match="password") as told:
                    await client.lock(own_name).acquire(timeout=2)
                assert "basil" not in str(told.value)

    play(main)


@pytest.mark.parametrize("protocol_number", [2, 3])
@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "decoded"])
def test_a_given_client_stays_unchanged(
    protocol_number: int, decode: bool, shared_redis: RedisServer, own_name: str
) -> None:
    async def main() -> None:
        given = redis.asyncio.Redis(
            port=shared_redis.port, protocol=protocol_number, decode_responses=decode
        )
        async with AsyncClient(given) as client:
            await use(client, own_name)
        # Then the client is still open, and decodes replies as before
        await given.set(own_name, "x")
        assert await given.getdel(own_name) == ("x" if decode else b"x")
        await given.aclose()

    play(main)


def test_a_given_client_of_the_other_face(shared_redis: RedisServer, own_name: str) -> None:
    async def main() -> None:
        with redis.Redis(port=shared_redis.port) as given:
            async with AsyncClient(given) as client:
                await use(client, own_name)

    play(main)


def test_two_databases_have_separate_locks(shared_redis: RedisServer, own_name: str) -> None:
    async def main() -> None:
        base = shared_redis.url.rpartition("/")[0]
        async with (
            AsyncClient(f"{base}/3?recovery=off") as here,
            AsyncClient(f"{base}/4?recovery=off") as there,
            here.lock(own_name, timeout=5),
            there.lock(own_name, timeout=5),
        ):
            assert len(await here.inspect(own_name)) == 1

    play(main)


def test_a_port_without_a_server_is_an_error(own_name: str) -> None:
    async def main() -> None:
        async with AsyncClient(f"redis://127.0.0.1:{free_port()}") as client:
            with pytest.raises(StoreUnavailable, match="can't be reached"):
                await client.lock(own_name).acquire(timeout=0.3)

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

    async def until(true: Callable[[], Any]) -> None:
        async with asyncio.timeout(10):
            while not true():
                await asyncio.sleep(0.01)

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


def test_a_user_without_the_right_to_run_scripts_gets_an_error(
    new_redis: NewRedis, own_name: str
) -> None:
    server = new_redis(users=("user app on >secret ~holdfast:* &* +@all -evalsha",))

    async def main() -> None:
        async with AsyncClient(server.url_for("app", "secret")) as client:
            with pytest.raises(ConfigError, match="evalsha"):
                await client.lock(own_name).acquire()

    play(main)


def test_a_server_that_became_a_replica(new_redis: NewRedis, own_name: str) -> None:
    server, primary = new_redis(), new_redis()

    async def main() -> None:
        async with AsyncClient(server.url) as client:
            async with client.lock(own_name):
                wire: Any = wire_of(client)
            await asyncio.to_thread(server.ask, "REPLICAOF", primary.host, primary.port)
            # When it refuses to write, its connection isn't used again
            with pytest.raises(StoreUnavailable, match="is a replica"):
                await client.lock(own_name).acquire(timeout=0.3)
            assert wire.over
            # And when it is a primary again, the client works
            await asyncio.to_thread(server.ask, "REPLICAOF", "NO", "ONE")
            async with client.lock(own_name, timeout=10):
                pass

    play(main)
