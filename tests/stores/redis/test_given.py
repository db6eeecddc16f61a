"""A client of redis-py instead of a URL: its settings are used, and it stays unchanged."""

from __future__ import annotations

from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from holdfast import Client, ConfigError, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faces import Face
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.servers.tls import Certificate
from tests.stores.redis.conftest import MakeClient

lag.watch()

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "decoding": {"decode_responses": True},
    "resp2": {"protocol": 2},
    "resp3": {"protocol": 3},
    "resp3 decoding": {"protocol": 3, "decode_responses": True},
    "impatient": {"socket_timeout": 5},
    "one connection": {"single_connection_client": True},
    "few connections": {"max_connections": 1},
    "watched": {"health_check_interval": 1},
    "named": {"client_name": "mine"},
}


def made(face: Face, server: RedisServer, **options: Any) -> Any:
    kind = redis.Redis if face.name == "sync" else redis.asyncio.Redis
    return kind(host=server.host, port=server.port, **options)


@pytest.mark.usual(14)
@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_client_will_do_and_stays_unchanged(
    options: dict[str, Any], face: Face, shared_redis: RedisServer, own_name: str
) -> None:
    given = made(face, shared_redis, **options)

    async def theirs(call: Any) -> Any:
        return call if face.name == "sync" else await call

    async def main() -> None:
        await theirs(given.set(own_name, "1", ex=60))
        async with face.client(given) as locks:

            async def work() -> int:
                async with locks.lock(own_name, timeout=10) as mine:
                    return mine.fence

            # When the lock is held, waited for, and handed off
            took = []
            for _ in range(3):
                async with locks.lock(own_name) as hold:
                    waiter = face.start(work)
                    while not (await locks.inspect(own_name))[0].waiters:
                        await face.sleep(0.001)
                    begun = boottime()
                assert await waiter.result() > hold.fence
                took.append(boottime() - begun - lag.since(begun))
            assert sorted(took)[1] < 0.5
        # Then the given client is unchanged, and still open after holdfast's client is closed
        assert await theirs(given.get(own_name)) == ("1" if "decode_responses" in options else b"1")
        await theirs(given.close() if face.name == "sync" else given.aclose())

    face.run(main, 60)


def test_a_client_of_the_other_face_will_do_too(
    face: Face, shared_redis: RedisServer, other: Client, own_name: str
) -> None:
    kind = redis.asyncio.Redis if face.name == "sync" else redis.Redis
    given = kind(host=shared_redis.host, port=shared_redis.port, db=1)

    async def main() -> None:
        async with face.client(given) as locks, locks.lock(own_name, timeout=10):
            assert locks.url == f"redis://{shared_redis.host}:{shared_redis.port}/1"
            # And two databases have separate locks
            assert not other.inspect(own_name)

    face.run(main, 60)


def test_a_long_wait_is_longer_than_the_time_out_of_the_given_client(
    shared_redis: RedisServer, new_client: MakeClient, own_name: str
) -> None:
    with redis.Redis(port=shared_redis.port, socket_timeout=0.1) as given:
        locks = new_client(given)
        with new_client().lock(own_name):
            begun = boottime()
            assert locks.lock(own_name).acquire(timeout=0.6) is None
            assert 0.6 <= boottime() - begun < 0.6 + 0.25 + lag.since(begun)


def test_the_retries_of_a_given_client_are_not_used(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis()
    given = redis.Redis(port=server.port, retry=Retry(ConstantBackoff(1.0), 10), socket_timeout=5)
    server.kill()
    begun = boottime()
    with pytest.raises(StoreUnavailable):
        new_client(given).lock("x").acquire(timeout=0.3)
    assert boottime() - begun < 0.3 + 0.25 + lag.since(begun)


def test_login_database_socket_and_tls_come_along(
    new_redis: NewRedis, new_client: MakeClient, certificate: Certificate
) -> None:
    server = new_redis(password="sesame", tls=certificate)
    ca = str(certificate.certificate)
    tls = {"port": server.tls_port, "ssl": True, "ssl_ca_certs": ca, "password": "sesame"}
    provider = redis.UsernamePasswordCredentialProvider(password="sesame")
    for number, options in enumerate(
        (
            {"port": server.port, "password": "sesame", "db": 3},
            {"unix_socket_path": str(server.socket), "password": "sesame", "db": 3},
            {**tls, "db": 3},
            {"port": server.port, "credential_provider": provider, "db": 3},
        )
    ):
        given = redis.Redis(**options)  # type: ignore[arg-type]
        with given, new_client(given).lock(f"x{number}"):
            assert given.keys(f"holdfast:*:x{number}")
        with pytest.raises(ConfigError), new_client(redis.Redis(port=server.port)).lock("x"):
            pass


def test_a_connect_function_of_ones_own_is_called(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis(password="sesame")
    seen = []

    def greet(connection: Any) -> None:
        connection.on_connect()
        connection.send_command("AUTH", "sesame")
        seen.append(connection.read_response())

    given = redis.Redis(port=server.port, protocol=2, redis_connect_func=greet)
    with new_client(given).lock("x"):
        pass
    assert seen


def test_two_clients_on_one_given_client_are_two_owners(
    shared_redis: RedisServer, new_client: MakeClient, own_name: str
) -> None:
    with redis.Redis(port=shared_redis.port) as given, new_client(given).lock(own_name):
        assert new_client(given).lock(own_name).acquire(blocking=False) is None
