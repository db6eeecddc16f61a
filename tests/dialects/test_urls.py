"""The URLs of the dialects: their options, the URLs that are refused, and TLS."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from holdfast import AsyncClient, Client, ConfigError
from tests.servers.fixtures import NewRedis
from tests.servers.tls import Certificate

CANARY = "hunter2"


@pytest.mark.parametrize("dialect", ["plain", "timestamp"])
def test_a_password_is_never_shown(dialect: str) -> None:
    with Client(f"redis+{dialect}://me:{CANARY}@127.0.0.1:1/3?prefix=x") as locks:
        assert locks.url == f"redis+{dialect}://127.0.0.1:1/3"
        assert CANARY not in repr(locks) + repr(locks.lock("x"))


@pytest.mark.parametrize(
    "url, words",
    [
        ("redis+plain://h/0?layuot=redsync", 'did you mean "layout"'),
        ("redis+plain://h/0?layout=redsinc", 'did you mean "redsync"'),
        ("redis+plain://h/0?token=secret", "uuid-timestamp"),
        ("redis+plain://h/0?unit=minutes", "seconds"),
        ("redis+plain://h/0?recovery=off", "no option"),
        ("redis+plain://h/x", "is no database"),
        ("redis+plain://h/0?prefix=" + "x" * 129, "128"),
        ("redis+timestamp://h/0?layout=redsync", "no option"),
    ],
)
def test_what_can_not_be_meant_is_refused_in_words(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Client(url)


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
