"""The oldest supported Redis: it needs other scripts, and its error texts differ."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncClient, Client, ConfigError, HoldfastError, StoreUnavailable
from holdfast.stores.redis.keys import keys_of
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program
from tests.stores.redis.conftest import eventually

FACES = pytest.mark.parametrize("face", ["threads", "asyncio"])


@pytest.fixture
def old(new_redis: NewRedis) -> RedisServer:
    """A server with Redis 6.2."""
    server = new_redis(server=old_program())
    assert server.version[:2] == (6, 2)
    return server


def acquired(server: RedisServer, name: str, face: str, timeout: float = 0.5) -> Exception | None:
    """Acquire and release once; return the error if there was one."""

    async def with_a_loop() -> None:
        async with AsyncClient(server.url) as locks, locks.lock(name, timeout=timeout):
            pass

    try:
        if face == "asyncio":
            asyncio.run(with_a_loop())
        else:
            with Client(server.url) as locks, locks.lock(name, timeout=timeout):
                pass
    except HoldfastError as wrong:
        return wrong
    return None


@FACES
def test_it_learns_the_scripts_by_the_way(old: RedisServer, face: str) -> None:
    for _ in range(3):
        assert acquired(old, "x", face, 10.0) is None
        old.ask("SCRIPT", "FLUSH")


@FACES
def test_a_replica_is_no_lasting_mistake(old: RedisServer, face: str) -> None:
    assert acquired(old, "x", face, 10.0) is None
    old.ask("REPLICAOF", "127.0.0.1", "1")
    wrong = acquired(old, "x", face)
    assert isinstance(wrong, StoreUnavailable)
    assert "is a replica" in str(wrong)
    old.ask("REPLICAOF", "NO", "ONE")
    # As a replica it can have missed writes, so it grants nothing for a while
    assert "grants nothing" in str(acquired(old, "x", face))
    eventually(lambda: acquired(old, "x", face) is None)


@FACES
def test_without_memory_new_claims_are_refused(old: RedisServer, face: str) -> None:
    old.ask("CONFIG", "SET", "maxmemory", "1")
    wrong = acquired(old, "x", face)
    assert isinstance(wrong, StoreUnavailable)
    assert "maxmemory" in str(wrong)
    old.ask("CONFIG", "SET", "maxmemory", "0")
    assert acquired(old, "x", face, 10.0) is None


@FACES
def test_a_foreign_key_is_named_and_left_alone(old: RedisServer, face: str) -> None:
    key = keys_of("holdfast", b"x")[0]
    old.ask("SET", key, "mine")
    wrong = acquired(old, "x", face)
    assert isinstance(wrong, ConfigError)
    assert key.decode() in str(wrong)
    assert old.ask("GET", key) == b"mine"
