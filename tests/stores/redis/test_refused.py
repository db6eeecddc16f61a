"""A server that refuses, is silent, needs TLS, or isn't a Redis: a clear error, soon."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Client, ConfigError, HoldfastError, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.keys import keys_of
from holdfast.testing import lag
from holdfast.testing.faces import Face
from tests.servers.fixtures import NewRedis
from tests.servers.process import free_port
from tests.servers.redis_server import RedisServer, old_program, program
from tests.servers.tls import Certificate

TIMEOUT_S = 1.0
#: A time-out for cases that are refused immediately, and the most that a test takes.
PLENTY_S, LONG_S = 10.0, 90.0
LATE_S = 2.0
CANARY = "hunter2"
# The lag of the machine itself is measured and subtracted.
lag.watch()


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that accepts connections and never sends anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def full() -> Iterator[int]:
    """A port whose host drops every packet, so that no connection is accepted."""
    with contextlib.ExitStack() as ends:
        listener = ends.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = listener.getsockname()[1]
        for _ in range(4):
            one = ends.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        yield port


@pytest.fixture
def free() -> int:
    return free_port()


async def unavailable(client: Any, name: str = "x") -> str:
    """Return the text of the error, which must come in time and be StoreUnavailable."""
    begun = boottime()
    with pytest.raises(StoreUnavailable) as failure:
        await client.lock(name).acquire(timeout=TIMEOUT_S)
    assert boottime() - begun - lag.since(begun) <= TIMEOUT_S + LATE_S
    return str(failure.value)


def error_of(face: Face, url: str) -> str:

    async def main() -> str:
        async with face.client(url) as client:
            return await unavailable(client)

    return face.run(main, LONG_S)


def refusal(face: Face, url: str) -> str:
    """Return the text of the ConfigError of an acquire, which has plenty of time."""

    async def main() -> str:
        async with face.client(url) as client:
            with pytest.raises(ConfigError) as failure:
                await client.lock("x").acquire(timeout=PLENTY_S)
            assert CANARY not in repr(client)
            return str(failure.value)

    return face.run(main, LONG_S)


@pytest.mark.parametrize(
    "port, url, words",
    [
        ("free", "redis://127.0.0.1:{}", "can't be reached"),
        ("free", "redis://localhost:{}", "can't be reached"),
        ("silent", "redis://127.0.0.1:{}", "did not answer"),
        ("silent", "rediss://127.0.0.1:{}", "did not answer"),
        ("full", "redis://127.0.0.1:{}", "did not answer"),
    ],
)
def test_a_server_that_accepts_no_connection_is_an_error_in_time(
    face: Face, port: str, url: str, words: str, request: pytest.FixtureRequest
) -> None:
    url = url.format(request.getfixturevalue(port))
    text = error_of(face, url)
    assert f"{url}/0" in text
    assert words in text


async def passed_on(face: Face, client: Any) -> float:

    async def wait() -> float:
        async with client.lock("x", timeout=10):
            return boottime()

    async with client.lock("x"):
        waiter = face.start(wait)
        while not (await client.inspect("x", exact=True))[0].waiters:
            await face.sleep(0.001)
        begun = boottime()
    return float(await waiter.result()) - begun - lag.since(begun)


def test_tls(face: Face, new_redis: NewRedis, certificate: Certificate) -> None:
    server = new_redis(tls=certificate)
    trusted = f"{server.tls_url}?ssl_ca_certs={certificate.certificate}"

    async def main() -> None:
        async with face.client(trusted) as client:
            # The first wait can begin without a listener. If none had one, each would take a second
            assert min([await passed_on(face, client) for _ in range(3)]) < 0.5
            # And with data that is longer than one TLS record
            names = [f"{at}:{'x' * 300}" for at in range(200)]
            holds = [await client.lock(name).acquire() for name in names]
            assert len(await client.inspect()) == 200
            for hold in holds:
                assert await hold.release()

    face.run(main, LONG_S)
    assert "ssl_ca_certs" in refusal(face, server.tls_url)
    # And with a URL and a port that disagree about TLS
    assert "without TLS write redis://" in error_of(face, f"rediss://127.0.0.1:{server.port}")
    assert "rediss" in error_of(face, f"redis://127.0.0.1:{server.tls_port}")


def test_a_unix_socket(face: Face, shared_redis: RedisServer, other: Client, own_name: str) -> None:
    async def main() -> None:
        for url in (shared_redis.unix_url, "redis+" + shared_redis.unix_url):
            async with face.client(url) as client, client.lock(own_name):
                assert other.inspect(own_name)
        async with face.client("redis+unix:///nowhere/socket") as client:
            with pytest.raises(match="/nowhere"):
                await client.lock("x").acquire(timeout=0.2)

    face.run(main, LONG_S)


@pytest.fixture(params=[program, old_program], ids=["usual", "6.2"])
def server(request: pytest.FixtureRequest, new_redis: NewRedis) -> RedisServer:
    server = new_redis(server=request.param())
    assert (server.version[:2] == (6, 2)) == (request.param is old_program)
    return server


def test_scripts_that_were_flushed_are_loaded_again(server: RedisServer, face: Face) -> None:
    async def main() -> None:
        async with face.client(server.url) as client:
            for _ in range(3):
                server.ask("SCRIPT", "FLUSH")
                async with client.lock("x", timeout=10) as hold:
                    server.ask("SCRIPT", "FLUSH")
                    await hold.extend()
                    server.ask("SCRIPT", "FLUSH")
                    assert await client.inspect()
                    server.ask("SCRIPT", "FLUSH")

    face.run(main, LONG_S)


def test_a_replica_a_full_memory_and_a_foreign_key_are_named_while_they_last(
    server: RedisServer, face: Face
) -> None:
    key = keys_of("holdfast", b"theirs")[0]

    async def main() -> None:
        async with face.client(server.url) as client:

            async def refused(kind: type[HoldfastError], words: str, name: str = "x") -> None:
                with pytest.raises(kind, match=words):
                    await client.lock(name).acquire(timeout=0.5)

            async with client.lock("x", timeout=10):
                server.ask("SET", key, "mine")
                await refused(ConfigError, key.decode().replace("{", r"\{"), "theirs")
                assert server.ask("GET", key) == b"mine"
            server.ask("CONFIG", "SET", "maxmemory", "1")
            await refused(StoreUnavailable, "maxmemory")
            server.ask("CONFIG", "SET", "maxmemory", "0")
            async with client.lock("x", timeout=10):
                server.ask("REPLICAOF", "127.0.0.1", "1")
                await refused(StoreUnavailable, "is a replica", "y")
                server.ask("REPLICAOF", "NO", "ONE")
                # As a replica it can have missed writes, so it grants nothing for a while
                await refused(StoreUnavailable, "grants nothing", "y")
            async with client.lock("x", timeout=20):
                pass

    face.run(main, LONG_S)
