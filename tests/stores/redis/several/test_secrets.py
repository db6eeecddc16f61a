"""TLS and passwords with several servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdfast import AsyncClient, Client, ConfigError
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.servers.sentinels import Watched
from tests.servers.tls import Certificate
from tests.stores.redis.aio.conftest import play

SLOTS = 16384


def used(url: str) -> None:
    """Hold a lock on both faces, and inspect it."""
    with Client(url) as locks, locks.lock("x"):
        assert [one.name for one in locks.inspect("")] == ["x"]

    async def main() -> None:
        async with AsyncClient(url) as locks, locks.lock("x"):
            assert [one.name for one in await locks.inspect("")] == ["x"]

    play(main)


def refused(url: str, words: str) -> None:
    """Expect a ConfigError on both faces, with these words and without the password."""
    with Client(url) as locks, pytest.raises(ConfigError, match=words) as one:
        locks.lock("x").acquire(timeout=2)

    async def main() -> None:
        async with AsyncClient(url) as locks:
            with pytest.raises(ConfigError, match=words):
                await locks.lock("x").acquire(timeout=2)
        await asyncio.sleep(0.5)  # redis-py says goodbye by TLS while nobody waits for it

    play(main)
    assert "open sesame" not in str(one.value)


def test_a_cluster_by_tls_with_a_password(new_redis: NewRedis, certificate: Certificate) -> None:
    server = new_redis(
        "cluster-enabled yes", "tls-cluster yes", tls=certificate, password="sesame", known=False
    )
    server.ask("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
    until(lambda: b"cluster_state:ok" in server.ask("CLUSTER", "INFO"), "the cluster is whole")
    server.make_known()
    place = f"{server.host}:{server.tls_port}"
    used(f"rediss+cluster://:sesame@{place}?ssl_ca_certs={certificate.certificate}")
    refused(
        f"rediss+cluster://:open sesame@{place}?ssl_ca_certs={certificate.certificate}", "password"
    )
    refused(f"rediss+cluster://:sesame@{place}", "certificate")


def test_sentinels_know_the_servers_and_not_their_password(
    new_watched: Callable[..., Watched],
) -> None:
    watched = new_watched(password="sesame", replicas=0, sentinels=1)
    used(watched.url)
    refused(watched.url.replace(":sesame@", ":open sesame@"), "password")


def test_sentinels_with_a_password_of_their_own_name_what_is_missing(
    new_watched: Callable[..., Watched],
) -> None:
    watched = new_watched(replicas=0, sentinels=1)
    watched.sentinels[0].ask("ACL", "SETUSER", "default", "resetpass", ">theirs")
    words = r"the sentinels .* refuse the login.*sentinel_password"
    refused(watched.url, words)
    refused(f"{watched.url}?sentinel_password=open+sesame", words)
    used(f"{watched.url}?sentinel_password=theirs")
