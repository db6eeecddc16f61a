"""The options of a URL of this dialect, and the URLs that are refused."""

from __future__ import annotations

import pytest

from holdfast import Client, ConfigError, NotSupported, StoreUnavailable
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer


@pytest.mark.parametrize(
    "words, said",
    [
        ("client=3.8.2", "did you mean"),
        ("fair=yes", "known: false, true"),
        ("fair_wait=0", "seconds"),
        ("fensed=true", 'did you mean "fenced"'),
        ("recovery=strict", "no option"),
        ("prefix=" + "x" * 129, "at most 128 bytes"),
        ("fair=true&fenced=true", "fair and fenced"),
    ],
)
def test_what_can_not_be_is_refused_in_words(words: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Client(f"redis+redisson://127.0.0.1/0?{words}")


def test_options_say_what_it_can_do() -> None:
    plain = Client("redis+redisson://localhost")
    assert not plain.supports("fair")
    assert not plain.supports("fences")
    assert Client("redis+redisson://localhost?fair=true").supports("visible_line")
    assert Client("redis+redisson://localhost?fenced=true").supports("fences")
    for words in ("fair=true", "fenced=true"):
        locks = Client(f"redis+redisson://localhost?{words}")
        with pytest.raises(NotSupported):
            locks.rwlock("x")
        with pytest.raises(NotSupported):
            locks.semaphore("x", 2)
    assert plain.url == "redis+redisson://localhost:6379/0"


def test_the_database_is_the_path(shared_redis: RedisServer, own_name: str) -> None:
    url = f"redis+redisson://127.0.0.1:{shared_redis.port}/3"
    with Client(url) as locks, locks.lock(own_name), shared_redis.client(db=3) as raw:
        assert raw.hlen(own_name) == 1


def test_no_password_is_shown() -> None:
    client = Client("redis+redisson://:geheim@localhost:1/0")
    with pytest.raises(StoreUnavailable) as caught:
        client.lock("x").acquire(timeout=0.1)
    for text in (repr(client), client.url, str(caught.value)):
        assert "geheim" not in text


def test_a_node_of_a_cluster_is_refused(new_redis: NewRedis, own_name: str) -> None:
    server = new_redis("cluster-enabled yes", known=False)
    url = f"redis+redisson://127.0.0.1:{server.port}"
    with Client(url) as locks, pytest.raises(ConfigError, match="node of a cluster"):
        locks.lock(own_name).acquire(timeout=5)


def test_a_cluster_has_no_url_here() -> None:
    with pytest.raises(ConfigError, match="no store for the scheme"):
        Client("redis+redisson+cluster://localhost")
