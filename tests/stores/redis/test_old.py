"""The usual and the oldest supported Redis: it needs other scripts, and its error texts differ."""

from __future__ import annotations

import pytest

from holdfast import ConfigError, HoldfastError, StoreUnavailable
from holdfast.stores.redis.keys import keys_of
from holdfast.testing.faces import Face
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program, program

LONG_S = 90.0


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
