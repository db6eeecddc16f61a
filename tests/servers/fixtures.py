"""Fixtures for servers: a shared one for all quick tests of a session, and new ones on request."""

from __future__ import annotations

import contextlib
import importlib
import secrets
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .process import in_memory

if TYPE_CHECKING:
    from .clock import Clock
    from .redis_server import RedisServer
    from .tls import Certificate

#: Makes a server with these settings (see `RedisServer`); it ends with the test.
NewRedis = Callable[..., "RedisServer"]


def _class(name: str) -> Any:
    """Import a class where it is used, so that a run without it starts fast."""
    module, _, kind = name.partition(".")
    return getattr(importlib.import_module(f"tests.servers.{module}"), kind)


def _shared(name: str, *settings: str, folder: str = "") -> Any:
    """A server for all tests that leave it unchanged and use unique names."""

    @pytest.fixture(scope="session")
    def shared(no_disk: Path) -> Iterator[Any]:
        places = [no_disk / folder] if folder else []
        for place in places:
            place.mkdir()
        with _class(name)(*places, *settings) as server:
            yield server

    return shared


def _url_of(fixture: str) -> Any:
    """The address of the server that all tests share."""

    @pytest.fixture
    def url(request: pytest.FixtureRequest) -> str:
        address: str = request.getfixturevalue(fixture).url
        return address

    return url


def _new(name: str, folder: str = "") -> Any:
    """Makes separate servers, which a test can stop, kill and restart; they end with the test."""

    @pytest.fixture
    def new(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
        with contextlib.ExitStack() as ends:

            def make(*settings: Any, **options: Any) -> Any:
                places = [tmp_path_factory.mktemp(folder)] if folder else []
                return ends.enter_context(_class(name)(*places, *settings, **options))

            yield make

    return new


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


@pytest.fixture
def own_name() -> str:
    """A name that no other test uses."""
    return f"name-{secrets.token_hex(6)}"


@pytest.fixture
def server_clock() -> Iterator[Clock]:
    """A wall clock that a test steps, for the servers that the test starts (see `Clock.worn`)."""
    with contextlib.closing(_class("clock.Clock")()) as clock:
        yield clock


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A self-made certificate for the loopback."""
    made: Certificate = _class("tls.Certificate").make(tmp_path_factory.mktemp("certificate"))
    return made


shared_redis = _shared("redis_server.RedisServer", folder="redis")
redis_url = _url_of("shared_redis")
new_redis = _new("redis_server.RedisServer", "redis")
new_watched = _new("sentinels.Watched", "watched")
new_cluster = _new("cluster.Cluster", "cluster")

# The runs of the kit that are active at the same time open up to a hundred connections.
shared_postgres = _shared("postgres_server.PostgresServer", "max_connections = 300")
postgres_url = _url_of("shared_postgres")
new_postgres = _new("postgres_server.PostgresServer")

shared_mariadb = _shared("mariadb_server.MariadbServer", folder="mariadb")
mariadb_url = _url_of("shared_mariadb")
new_mariadb = _new("mariadb_server.MariadbServer", "mariadb")

shared_zookeeper = _shared("zookeeper.ZooKeeperServer", folder="zookeeper")
zookeeper_url = _url_of("shared_zookeeper")
new_zookeeper = _new("zookeeper.ZooKeeperServer", "zookeeper")
new_ensemble = _new("zookeeper.Ensemble", "ensemble")
