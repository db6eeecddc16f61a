"""Fixtures for servers: a shared one for all quick tests of a session, and new ones on request."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .process import in_memory

# These are imported where they are used, so that a run without them starts fast.
if TYPE_CHECKING:
    from .clock import Clock
    from .cluster import Cluster
    from .mariadb_server import MariadbServer
    from .postgres_server import PostgresServer
    from .redis_server import RedisServer
    from .sentinels import Watched
    from .tls import Certificate
    from .zookeeper import Ensemble, ZooKeeperServer

#: Makes a server with these settings (see `RedisServer`); it ends with the test.
NewRedis = Callable[..., "RedisServer"]


@pytest.fixture(scope="session")
def no_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder `in_memory` if there is room, otherwise a folder on the disk."""
    where = in_memory()
    if where is None:
        yield tmp_path_factory.mktemp("servers")
        return
    made = tempfile.TemporaryDirectory("", "holdfast-servers-", where, ignore_cleanup_errors=True)
    with made as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server for all tests that leave it unchanged and use unique names."""
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
    """Makes separate servers, which a test can stop, kill, fill and restart."""
    from .redis_server import RedisServer

    made: list[RedisServer] = []

    def make(*settings: str, **options: Any) -> RedisServer:
        made.append(RedisServer(tmp_path_factory.mktemp("redis"), *settings, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def server_clock() -> Iterator[Clock]:
    """A wall clock that a test steps, for the servers that the test starts (see `Clock.worn`)."""
    from .clock import Clock

    with contextlib.closing(Clock()) as clock:
        yield clock


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


@pytest.fixture(scope="session")
def shared_postgres() -> Iterator[PostgresServer]:
    """A server for all tests that leave it unchanged and use unique names."""
    from .postgres_server import PostgresServer

    # The runs of the kit that are active at the same time open up to a hundred connections.
    with PostgresServer("max_connections = 300") as server:
        yield server


@pytest.fixture
def postgres_url(shared_postgres: PostgresServer) -> str:
    """The address of the server that all tests share."""
    return shared_postgres.url


@pytest.fixture
def new_postgres() -> Iterator[Callable[..., PostgresServer]]:
    """Makes separate servers (see `PostgresServer`), which a test can stop and crash."""
    from .postgres_server import PostgresServer

    with contextlib.ExitStack() as ends:
        yield lambda *settings, **options: ends.enter_context(PostgresServer(*settings, **options))


@pytest.fixture(scope="session")
def shared_mariadb(no_disk: Path) -> Iterator[MariadbServer]:
    """A MariaDB for all tests that leave it unchanged and use unique names."""
    from .mariadb_server import MariadbServer

    (folder := no_disk / "mariadb").mkdir()
    with MariadbServer(folder) as server:
        yield server


@pytest.fixture
def mariadb_url(shared_mariadb: MariadbServer) -> str:
    """The address of the MariaDB that all tests share."""
    return shared_mariadb.url


@pytest.fixture
def new_mariadb(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., MariadbServer]]:
    """Makes separate MariaDB servers, which a test can stop, kill and restart."""
    from .mariadb_server import MariadbServer

    with contextlib.ExitStack() as ends:
        yield lambda *settings, **options: ends.enter_context(
            MariadbServer(tmp_path_factory.mktemp("mariadb"), *settings, **options)
        )


@pytest.fixture(scope="session")
def shared_zookeeper(no_disk: Path) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper for all tests that leave it unchanged and use unique names."""
    from .zookeeper import ZooKeeperServer

    (folder := no_disk / "zookeeper").mkdir()
    with ZooKeeperServer(folder) as server:
        yield server


@pytest.fixture
def zookeeper_url(shared_zookeeper: ZooKeeperServer) -> str:
    """The address of the ZooKeeper that all tests share."""
    return shared_zookeeper.url


@pytest.fixture
def new_zookeeper(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., ZooKeeperServer]]:
    """Makes separate ZooKeeper servers, which a test can stop, kill and restart."""
    from .zookeeper import ZooKeeperServer

    with contextlib.ExitStack() as ends:
        yield lambda *settings, **options: ends.enter_context(
            ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), *settings, **options)
        )


@pytest.fixture
def new_ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Ensemble]]:
    """Makes ensembles of three (see `Ensemble`); they end with the test."""
    from .zookeeper import Ensemble

    with contextlib.ExitStack() as ends:
        yield lambda *settings, **options: ends.enter_context(
            Ensemble(tmp_path_factory.mktemp("ensemble"), *settings, **options)
        )
