"""The servers as fixtures: one for all quick tests of a session, and fresh ones for the asking."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

# Imported where they are used, because a run without them should start at once.
if TYPE_CHECKING:
    from .cluster import Cluster
    from .redis_server import RedisServer
    from .sentinels import Watched
    from .tls import Certificate

#: Makes a server with these settings (see `RedisServer`); it ends with the test.
NewRedis = Callable[..., "RedisServer"]


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for all tests that leave it as it is and use names of their own."""
    from .redis_server import RedisServer

    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_url(shared_redis: RedisServer) -> str:
    """The address of the server that all tests share."""
    return shared_redis.url


@pytest.fixture
def own_name() -> str:
    """A name that no other test uses."""
    return f"name-{secrets.token_hex(6)}"


@pytest.fixture
def new_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewRedis]:
    """Makes servers of the test's own, which it may stop, kill, fill and restart."""
    from .redis_server import RedisServer

    made: list[RedisServer] = []

    def make(*settings: str, **options: Any) -> RedisServer:
        made.append(RedisServer(tmp_path_factory.mktemp("redis"), *settings, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A self-made certificate for the loopback."""
    from .tls import Certificate

    return Certificate.make(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def new_watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Watched]]:
    """Makes a primary with replicas and sentinels (see `Watched`); they end with the test."""
    from .sentinels import Watched

    with contextlib.ExitStack() as ends:
        yield lambda *settings, **options: ends.enter_context(
            Watched(tmp_path_factory.mktemp("watched"), *settings, **options)
        )


@pytest.fixture
def new_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Cluster]]:
    """Makes a cluster (see `Cluster`); it ends with the test."""
    from .cluster import Cluster

    with contextlib.ExitStack() as ends:
        yield lambda *settings, **options: ends.enter_context(
            Cluster(tmp_path_factory.mktemp("cluster"), *settings, **options)
        )
