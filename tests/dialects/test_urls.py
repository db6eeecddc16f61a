"""The URLs of the dialects: their options, the URLs that are refused, and TLS."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from holdfast import AsyncClient, Client, ConfigError, NotSupported, StoreUnavailable
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.servers.tls import Certificate

CANARY = "hunter2"
#: URLs that are refused, and words of the refusal.
WRONG = {
    "plain://h/0?layuot=redsync": 'did you mean "layout"',
    "plain://h/0?layout=redsinc": 'did you mean "redsync"',
    "plain://h/0?token=secret": "uuid-timestamp",
    "plain://h/0?unit=minutes": "seconds",
    "plain://h/0?recovery=off": "no option",
    "plain://h/x": "isn't a database",
    "plain://h/0?prefix=" + "x" * 129: "128",
    "timestamp://h/0?layout=redsync": "no option",
    "redisson://h/0?client=3.8.2": "did you mean",
    "redisson://h/0?fair=yes": "known: false, true",
    "redisson://h/0?fair_wait=0": "seconds",
    "redisson://h/0?fensed=true": 'did you mean "fenced"',
    "redisson://h/0?recovery=strict": "no option",
    "redisson://h/0?prefix=" + "x" * 129: "at most 128 bytes",
    "redisson://h/0?fair=true&fenced=true": "fair and fenced",
    "redisson+cluster://h": "no store for the scheme",
}


def test_what_can_not_be_meant_is_refused_in_words() -> None:
    for url, words in WRONG.items():
        with pytest.raises(ConfigError, match=words):
            Client(f"redis+{url}")


@pytest.mark.usual(3)
@pytest.mark.parametrize("dialect", ["plain", "timestamp", "redisson"])
def test_a_password_is_never_shown(dialect: str) -> None:
    with Client(f"redis+{dialect}://me:{CANARY}@127.0.0.1:1/3?prefix=x") as locks:
        assert locks.url == f"redis+{dialect}://127.0.0.1:1/3"
        with pytest.raises(StoreUnavailable) as caught:
            locks.lock("x").acquire(timeout=0.1)
        assert CANARY not in repr(locks) + repr(locks.lock("x")) + str(caught.value)


def test_the_options_of_redisson_say_what_it_can_do(
    shared_redis: RedisServer, own_name: str
) -> None:
    url = f"redis+redisson://127.0.0.1:{shared_redis.port}/3"
    with Client(url) as locks, locks.lock(own_name), shared_redis.client(db=3) as raw:
        assert raw.hlen(own_name) == 1
        assert not locks.supports("fair")
        assert not locks.supports("fences")
    assert Client(f"{url}?fair=true").supports("visible_line")
    assert Client(f"{url}?fenced=true").supports("fences")
    for words in ("fair=true", "fenced=true"):
        locks = Client(f"{url}?{words}")
        for make in (lambda: locks.rwlock("x"), lambda: locks.semaphore("x", 2)):  # noqa: B023
            with pytest.raises(NotSupported):
                make()


def test_a_node_of_a_cluster_is_refused(new_redis: NewRedis, own_name: str) -> None:
    server = new_redis("cluster-enabled yes", known=False)
    url = f"redis+redisson://127.0.0.1:{server.port}"
    with Client(url) as locks, pytest.raises(ConfigError, match="node of a cluster"):
        locks.lock(own_name).acquire(timeout=5)


@pytest.mark.parametrize("dialect", ["plain", "timestamp"])
def test_by_tls_it_is_the_same(dialect: str, new_redis: NewRedis, certificate: Certificate) -> None:
    server = new_redis(tls=certificate)
    ca = f"ssl_ca_certs={certificate.certificate}"
    url = f"rediss+{dialect}://127.0.0.1:{server.tls_port}/0?{ca}"

    async def aio() -> None:
        async with AsyncClient(url) as locks, locks.lock("x", timeout=10) as hold:
            assert await hold.extend() > 0

    with Client(url) as locks, Client(url) as other:
        hold = locks.lock("x").acquire()
        later = threading.Timer(0.2, hold.release)
        begun = time.monotonic()
        later.start()
        with other.lock("x", timeout=10):
            assert time.monotonic() - begun > 0.15
        later.join()
    asyncio.run(aio())
