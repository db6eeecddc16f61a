"""URLs and given clients that lead to several servers."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.cluster import key_slot

from holdfast import Client, ConfigError, StoreUnavailable
from holdfast.stores.redis.complaints import ServerSaid
from holdfast.stores.redis.slots import BUCKET_SLOTS, sent_to
from holdfast.stores.redis.topology import Members, Sentinels, topology
from holdfast.testing.faces import Face
from holdfast.url import find
from tests.servers.cluster import Cluster
from tests.servers.process import free_port
from tests.servers.sentinels import NAME, Watched
from tests.servers.tls import Certificate


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


def test_by_tls_the_sentinels_are_asked_by_tls_too(certificate: Certificate) -> None:
    ca = str(certificate.certificate)
    for scheme in ("rediss+sentinel", "valkeys+sentinel"):
        found = read(f"{scheme}://a/mine?ssl_ca_certs={ca}")
        assert found.settings.kind == "tls"
        assert found.arguments == {"ssl": True, "ssl_ca_certs": ca, "ssl_check_hostname": True}


def test_one_server_is_no_topology() -> None:
    assert read("redis://a") is read("redis+unix:///s") is None


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

OPTIONS = pytest.mark.parametrize(
    "options", [{}, {"decode_responses": True}, {"protocol": 2}], ids=["plain", "text", "resp2"]
)
LIBRARY: dict[str, Any] = {"sync": redis, "aio": redis.asyncio}


async def used(face: Face, given: Any) -> None:
    """Hold a lock by a given client, and use the client itself."""
    async with face.client(given) as locks, locks.lock("given"):
        assert await locks.lock("given").acquire(blocking=False) is None
        found = given.get("nothing")
        assert (await found if inspect.isawaitable(found) else found) is None


async def close(one: Any) -> None:
    await one.aclose() if hasattr(one, "aclose") else one.close()


@OPTIONS
async def test_a_client_of_sentinels_will_do(
    face: Face, options: dict[str, Any], watched: Watched
) -> None:
    places = [(one.host, one.port) for one in watched.sentinels]
    asked = LIBRARY[face.name].Sentinel(places, socket_timeout=2)
    given = asked.master_for(NAME, **options)
    await used(face, given)
    for one in (given, *asked.sentinels):
        await close(one)


@OPTIONS
async def test_a_client_of_a_cluster_will_do(
    face: Face, options: dict[str, Any], cluster: Cluster
) -> None:
    first = cluster.servers[0]
    kind = LIBRARY[face.name].RedisCluster
    given = kind(host=first.host, port=first.port, **options)
    await used(face, given)
    await close(given)


def test_a_client_of_replicas_is_refused(watched: Watched) -> None:
    places = [(one.host, one.port) for one in watched.sentinels]
    with pytest.raises(ConfigError, match="master_for"):
        Client(redis.Sentinel(places).slave_for(NAME))


# -- the servers are missing, or of another kind --------------------------------------------------


async def test_an_address_without_such_servers_is_an_error(face: Face, watched: Watched) -> None:
    nobody = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    single = f"127.0.0.1:{watched.servers[0].port}"
    wrong: list[tuple[str, type[Exception], str, float]] = [
        (f"redis+sentinel://{nobody}/mine", StoreUnavailable, "127.0.0.1", 0.3),
        (f"redis+cluster://{nobody}", StoreUnavailable, "127.0.0.1", 0.3),
        (watched.url.replace(NAME, "another"), StoreUnavailable, "a primary of 'another'", 2.0),
        (f"redis+cluster://{single}", ConfigError, "a node of one", 10.0),
    ]
    for url, kind, words, timeout in wrong:
        async with face.client(url) as locks:
            with pytest.raises(kind, match=words):
                await locks.lock("x").acquire(timeout=timeout)
