"""A pool or an engine in place of a URL: holdfast opens its connections in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast import Client, ConfigError, StoreUnavailable
from holdfast.stores.postgres.config import settings
from holdfast.testing.faces import FACES
from holdfast.url import StoreURL, find

GIVEN: dict[str, tuple[str, Callable[[str], Any]]] = {
    "pool": ("sync", lambda url: psycopg_pool.ConnectionPool(url, open=False)),
    "engine": ("sync", lambda url: sqlalchemy.create_engine(_for_an_engine(url))),
    "asyncio pool": ("aio", lambda url: psycopg_pool.AsyncConnectionPool(url, open=False)),
    "asyncio engine": ("aio", lambda url: create_async_engine(_for_an_engine(url))),
}


def _for_an_engine(url: str) -> str:
    return url.replace("postgresql:", "postgresql+psycopg:")


@pytest.mark.usual(4)
@pytest.mark.parametrize("what", GIVEN)
def test_a_pool_or_an_engine_is_taken_and_left_alone(
    what: str, url: str, locks: Client, own_name: str
) -> None:
    name, make = GIVEN[what]
    face = FACES[name]

    async def main() -> None:
        given = make(url)
        async with face.client(given) as client, client.lock(own_name) as hold:
            (line,) = await face.outside(lambda: locks.inspect(own_name))
            assert line.claims[0].fence == hold.fence
        if "pool" in what:
            assert not given.get_stats().get("requests_num", 0)

    face.run(main, 60)


def _engine(**more: object) -> sqlalchemy.Engine:
    url = "postgresql+psycopg://me:s%20e@db:5433/x?sslmode=verify-full"
    return sqlalchemy.create_engine(url, **more)


def test_what_an_engine_adds_to_its_url_counts_as_well() -> None:
    added = {"sslrootcert": "/etc/ca.pem", "host": "other", "prepare_threshold": None}
    (place,) = settings(find(_engine(connect_args=added))[1]).places
    for word in ("host='other'", "sslmode='verify-full'", "sslrootcert='/etc/ca.pem'"):
        assert word in place
    assert "password='s e'" in place
    assert "prepare_threshold" not in place


def test_an_engine_that_connects_in_a_custom_way_is_refused() -> None:
    listened = _engine()
    sqlalchemy.event.listen(listened, "do_connect", lambda *_: None)
    for engine in (_engine(creator=lambda: None), listened):
        with pytest.raises(ConfigError, match="creator="):
            settings(find(engine)[1])


def test_an_engine_whose_tls_cant_be_had_is_refused() -> None:
    with pytest.raises(ConfigError, match="ssl="):
        settings(find(_engine(connect_args={"ssl": "require"}))[1])


def test_an_engine_for_another_database_is_refused() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with pytest.raises(ConfigError, match="SQLAlchemy"):
        Client(engine).lock("x").acquire()


@pytest.mark.parametrize(
    "url, places, label",
    [
        ("postgresql://", [""], "postgresql:///"),
        ("postgresql://me:s%20e@db/x", ["host='db'", "user='me'", "password='s e'"], "db/x"),
        ("postgres://[::1]:5433/x", ["host='::1'", "port='5433'"], "postgresql://[::1]:5433/x"),
        ("postgresql:///x?host=/run/pg", ["host='/run/pg'", "dbname='x'"], "/run/pg/x"),
        ("postgresql://a/x?schema=s", ["host='a'"], "postgresql://a/x?schema=s"),
    ],
)
def test_a_url_is_understood(url: str, places: list[str], label: str) -> None:
    found = settings(find(url)[1])
    assert all(place in found.places[0] for place in places)
    assert found.label.endswith(label)
    assert "s e" not in repr(found)


def test_several_hosts_are_tried_one_after_the_other() -> None:
    found = settings(find("postgresql://a:1,b/x")[1])
    assert ["host='a'" in found.places[0], "host='b'" in found.places[1]] == [True, True]
    assert not any("target_session_attrs" in one for one in found.places)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://db:99999/x",
        "postgresql://db/x?schema=Locks",
        "postgresql://db/x?durable=perhaps",
        "postgresql://db/x?pool=0",
        "postgresql://a,b/x?port=1,2,3",
        "postgresql://db/x?gard=off",
    ],
)
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        settings(find(url)[1])


def test_what_is_no_pool_is_refused() -> None:
    with pytest.raises(ConfigError, match="can't be used"):
        settings(StoreURL("postgresql", native=object()))


def test_a_password_never_shows() -> None:
    with Client("postgresql://me:geheim@127.0.0.1:1/x") as client:
        with pytest.raises(StoreUnavailable) as caught:
            client.lock("x").acquire(timeout=0.5)
        assert "geheim" not in str(caught.value) + repr(client)
