"""TLS and passwords with several servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import ConfigError
from holdfast.testing.faces import FACES, Face
from tests.servers.fixtures import NewRedis
from tests.servers.sentinels import Watched
from tests.servers.tls import Certificate
from tests.stores.redis.several.conftest import alone


def used(url: str) -> None:
    """Hold a lock on each face, and inspect it."""
    for face in FACES.values():

        async def main(face: Face = face) -> None:
            async with face.client(url) as locks, locks.lock("x"):
                assert [one.name for one in await locks.inspect("")] == ["x"]

        face.run(main, 60.0)


def refused(url: str, words: str) -> None:
    """Expect a ConfigError on each face, with these words and without the password."""
    for face in FACES.values():

        async def main(face: Face = face) -> None:
            async with face.client(url) as locks:
                with pytest.raises(ConfigError, match=words) as told:
                    await locks.lock("x").acquire(timeout=2)
            assert "open sesame" not in str(told.value)
            await face.sleep(0.5)  # redis-py closes TLS while no task waits for it

        face.run(main, 60.0)


def test_a_cluster_by_tls_with_a_password(new_redis: NewRedis, certificate: Certificate) -> None:
    server = alone(new_redis, "tls-cluster yes", tls=certificate, password="sesame")
    server.make_known()
    place, ca = f"{server.host}:{server.tls_port}", f"ssl_ca_certs={certificate.certificate}"
    used(f"rediss+cluster://:sesame@{place}?{ca}")
    refused(f"rediss+cluster://:open sesame@{place}?{ca}", "password")
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
