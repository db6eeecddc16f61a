"""URLs and given clients that lead to several servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.cluster import key_slot

from holdfast import AsyncClient, Client, ConfigError, StoreUnavailable
from holdfast.stores.redis.complaints import ServerSaid
from holdfast.stores.redis.slots import BUCKET_SLOTS, sent_to
from holdfast.stores.redis.topology import Members, Sentinels, topology
from holdfast.url import find
from tests.servers.cluster import Cluster
from tests.servers.process import free_port
from tests.servers.sentinels import NAME, Watched
from tests.servers.tls import Certificate
from tests.stores.redis.aio.conftest import play


def read(text: str) -> Any:
    return topology(find(text)[1])


def test_a_url_names_sentinels_and_what_they_watch() -> None:
    found = read("redis+sentinel://user:secret@a,b:7,[::1]/mine/3?sentinel_password=other")
    assert isinstance(found, Sentinels)
    assert found.places == (("a", 26379), ("b", 7), ("::1", 26379))
    assert (found.service, found.settings.arguments["db"]) == ("mine", 3)
    assert found.settings.arguments["password"] == "secret"
    assert found.arguments == {"password": "other"}
    assert "secret" not in repr(found) + found.settings.label
    assert "other" not in repr(found) + found.settings.label


def test_a_url_names_nodes_of_a_cluster() -> None:
    found = read("valkey+cluster://:secret@a,b:7?prefix=p")
    assert isinstance(found, Members)
    assert found.places == (("a", 6379), ("b", 7))
    assert found.settings.label == "valkey+cluster://a,b:7?prefix=p"
    assert found.at(("c", 8)).arguments["password"] == "secret"


@pytest.mark.parametrize("scheme", ["rediss+sentinel", "valkeys+sentinel"])
def test_by_tls_the_sentinels_are_asked_by_tls_too(scheme: str, certificate: Certificate) -> None:
    ca = str(certificate.certificate)
    found = read(f"{scheme}://a/mine?ssl_ca_certs={ca}")
    assert found.settings.kind == "tls"
    assert found.arguments == {
        "ssl": True,
        "ssl_ca_certs": ca,
        "ssl_check_hostname": True,
    }


def test_one_server_is_no_topology() -> None:
    assert read("redis://a") is None
    assert read("redis+unix:///s") is None


@pytest.mark.parametrize(
    "url, words",
    [
        ("redis+sentinel://a,b", "NAME"),
        ("redis+sentinel://a:x/mine", "host and port"),
        ("redis+sentinel:///mine", "host and port"),
        ("redis+sentinel://a/mine/x", "database"),
        ("redis+cluster://a/3", "only database 0"),
        ("redis+cluster://a?db=2", "only database 0"),
        ("redis+cluster://a,,b", "host and port"),
    ],
)
def test_a_wrong_url_is_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Client(url)


def test_buckets_have_the_slots_that_the_server_computes() -> None:
    assert list(BUCKET_SLOTS) == [key_slot(b"%d" % one) for one in range(128)]


def test_a_node_may_send_us_to_another_port_of_its_own_host() -> None:
    assert sent_to(ServerSaid("MOVED", "1 :7001"), ("h", 7000)) == ("h", 7001)
    assert sent_to(ServerSaid("ASK", "1 ::1:7001"), ("h", 7000)) == ("::1", 7001)
    assert sent_to(ServerSaid("MOVED", "nonsense"), ("h", 7000)) is None


# -- given clients -------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"protocol": 2}])
def test_a_client_of_sentinels_will_do(options: dict[str, Any], watched: Watched) -> None:
    places = [(one.host, one.port) for one in watched.sentinels]
    asked = redis.Sentinel(places, socket_timeout=2)
    given = asked.master_for(NAME, **options)
    with given, Client(given) as locks, locks.lock("given"):
        assert locks.lock("given").acquire(blocking=False) is None
        assert given.ping()
    for one in asked.sentinels:
        one.close()

    async def main() -> None:
        watch = redis.asyncio.Sentinel(places, socket_timeout=2)
        other = watch.master_for(NAME, **options)
        async with other, AsyncClient(other) as locks, locks.lock("given"):
            assert await locks.lock("given").acquire(blocking=False) is None
            assert await other.ping()
        for sentinel in watch.sentinels:
            await sentinel.aclose()

    play(main)


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}, {"protocol": 2}])
def test_a_client_of_a_cluster_will_do(options: dict[str, Any], cluster: Cluster) -> None:
    first = cluster.servers[0]
    given = redis.RedisCluster(host=first.host, port=first.port, **options)
    with given, Client(given) as locks, locks.lock("given"):
        assert locks.lock("given").acquire(blocking=False) is None
        assert given.get("nothing") is None

    async def main() -> None:
        other = redis.asyncio.RedisCluster(host=first.host, port=first.port, **options)
        async with other, AsyncClient(other) as locks, locks.lock("given"):
            assert await locks.lock("given").acquire(blocking=False) is None
            assert await other.get("nothing") is None

    play(main)


def test_a_client_of_replicas_is_refused(watched: Watched) -> None:
    places = [(one.host, one.port) for one in watched.sentinels]
    with pytest.raises(ConfigError, match="master_for"):
        Client(redis.Sentinel(places).slave_for(NAME))


# -- the servers are missing, or of another kind --------------------------------------------------


@pytest.mark.parametrize("kind", ["sentinel", "cluster"])
def test_an_address_without_servers_is_an_error(kind: str) -> None:
    path = "/mine" if kind == "sentinel" else ""
    url = f"redis+{kind}://127.0.0.1:{free_port()},127.0.0.1:{free_port()}{path}"
    with Client(url) as locks, pytest.raises(StoreUnavailable):
        locks.lock("x").acquire(timeout=0.3)

    async def main() -> None:
        async with AsyncClient(url) as other:
            with pytest.raises(StoreUnavailable):
                await other.lock("x").acquire(timeout=0.3)

    play(main)


def test_the_sentinels_watch_no_such_service(watched: Watched) -> None:
    url = watched.url.replace(NAME, "another")
    with (
        Client(url) as locks,
        pytest.raises(StoreUnavailable, match="names a primary of 'another'"),
    ):
        locks.lock("x").acquire(timeout=2)


def test_one_server_is_no_cluster(watched: Watched) -> None:
    port = watched.servers[0].port
    url = f"redis+cluster://127.0.0.1:{port}"
    with Client(url) as locks, pytest.raises(ConfigError, match="no node of one"):
        locks.lock("x").acquire(timeout=10)

    async def main() -> None:
        async with AsyncClient(url) as other:
            with pytest.raises(ConfigError, match="no node of one"):
                await other.lock("x").acquire(timeout=10)

    asyncio.run(main())
