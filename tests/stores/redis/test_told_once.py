"""Log entries about a server that can evict keys or hides its identity; certificates of others."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Client, ConfigError, StoreUnavailable
from holdfast.stores.redis.config import settings
from holdfast.testing.faces import FACES, Face
from holdfast.url import find
from tests.servers.cluster import Cluster
from tests.servers.fixtures import NewRedis
from tests.servers.process import need, until
from tests.servers.tls import Certificate
from tests.stores.redis.conftest import busy
from tests.stores.redis.recovery import RecoveryVerbs
from tests.stores.redis.test_rights import rights
from tests.stores.redis.verbs import START

BOTH = pytest.mark.parametrize("face", FACES, ids=["threads", "asyncio"])


def said(log: pytest.LogCaptureFixture, words: str) -> list[logging.LogRecord]:
    return [one for one in log.records if words in one.getMessage()]


def use(face: str, address: str) -> None:
    one = FACES[face]

    async def main() -> None:
        async with one.client(address) as client:

            async def work() -> None:
                for _ in range(3):
                    async with client.lock("x", timeout=20):
                        pass

            for actor in [one.start(work) for _ in range(5)]:
                await actor.result(60)

    one.run(main, 120)


@BOTH
@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "noeviction"])
def test_a_server_that_can_evict_keys_is_reported_once_as_an_error(
    new_redis: NewRedis, caplog: pytest.LogCaptureFixture, face: str, policy: str
) -> None:
    server = new_redis("maxmemory 64mb", f"maxmemory-policy {policy}")
    use(face, server.url)
    found = said(caplog, "can evict keys")
    assert len(found) == (policy != "noeviction")
    for one in found:
        assert one.levelno >= logging.ERROR
        assert policy in one.getMessage()
        assert "noeviction" in one.getMessage()


def test_a_server_without_a_limit_evicts_nothing(
    new_redis: NewRedis, caplog: pytest.LogCaptureFixture
) -> None:
    use("sync", new_redis("maxmemory-policy allkeys-lru").url)
    assert not said(caplog, "can evict keys")


@BOTH
def test_a_cluster_that_can_evict_keys_is_reported_once_for_all_nodes(
    new_cluster: Callable[..., Cluster], caplog: pytest.LogCaptureFixture, face: str
) -> None:
    cluster = new_cluster("maxmemory 64mb", "maxmemory-policy allkeys-lru", replicas=0)

    async def main() -> None:
        names = [f"name-{number}" for number in range(40)]
        async with FACES[face].client(cluster.url) as locks, locks.all(*names, timeout=40):
            pass

    FACES[face].run(main, 90)
    assert len(said(caplog, "can evict keys")) == 1


@BOTH
def test_a_user_without_the_right_to_ask_is_warned_once_that_recovery_is_off(
    new_redis: NewRedis, caplog: pytest.LogCaptureFixture, face: str
) -> None:
    left = " ".join(word for word in rights() if word not in ("+info", "+config|get"))
    server = new_redis("maxmemory 64mb", "maxmemory-policy allkeys-lru", users=(left,))
    use(face, server.url_for("holdfast", "secret"))
    assert not said(caplog, "can evict keys")
    assert len(said(caplog, "give the right to INFO")) == 1


def test_a_connection_made_while_the_server_is_busy_is_refused_and_the_next_has_recovery(
    new_redis: NewRedis, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_redis()
    with Client(f"{server.url}?grace=2") as locks, Client(f"{server.url}?grace=2") as other:
        with busy(server), pytest.raises(StoreUnavailable, match="SCRIPT KILL"):
            locks.lock("x").acquire(timeout=0.5)
        with locks.lock("x", timeout=20, ttl=30) as hold:
            # Then recovery protects the hold: a restart without data grants nothing next to it
            server.restart(data=False)
            with pytest.raises(StoreUnavailable, match="has just restarted"):
                other.lock("x").acquire(blocking=False)
            assert other.lock("x").acquire(timeout=4) is None
            hold.check()
    assert not said(caplog, "give the right to INFO")


def test_strict_recovery_recognises_a_promotion_without_a_record(new_redis: NewRedis) -> None:
    primary = new_redis()
    replica = new_redis(f"replicaof {primary.host} {primary.port}")
    until(lambda: primary.ask("WAIT", 1, 100) == 1, "the replica follows")
    replica.ask("REPLICAOF", "NO", "ONE")
    replica.ask("FLUSHALL")
    with RecoveryVerbs(replica) as verbs:
        verbs.at(START)
        verbs.up(1000)
        verbs.know()
        assert verbs.judged(30.0, strict=True).cause == b"p"


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("scheme", ["redis", "redis+plain", "redis+timestamp", "redis+redisson"])
def test_eviction_is_reported_without_recovery_too(
    scheme: str, face: str, new_redis: NewRedis, caplog: pytest.LogCaptureFixture
) -> None:
    server = new_redis("maxmemory 50mb", "maxmemory-policy volatile-lru")
    options = "?recovery=off" if scheme == "redis" else ""
    use(face, f"{scheme}://127.0.0.1:{server.port}/0{options}")
    assert len(said(caplog, "can evict keys")) == 1
    assert not said(caplog, "no recovery")


def test_a_certificate_for_another_host_is_refused_and_named(
    new_redis: NewRedis, tmp_path: Path, face: Face
) -> None:
    # Given a server with a trusted certificate for another host
    made = Certificate(tmp_path / "certificate.pem", tmp_path / "key.pem")
    subprocess.run(
        [
            *(need("openssl"), "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=elsewhere.example"),
            *("-addext", "subjectAltName=DNS:elsewhere.example"),
            *("-keyout", str(made.key), "-out", str(made.certificate)),
        ],
        check=True,
        capture_output=True,
    )
    server = new_redis(tls=made)
    url = f"{server.tls_url}?ssl_ca_certs={made.certificate}"

    async def main() -> None:
        async with face.client(url) as client:
            with pytest.raises(ConfigError, match="for another host"):
                await client.lock("x").acquire(timeout=2)

    face.run(main, 60)
    # But a client that turns the check off connects
    with Client(f"{url}&ssl_check_hostname=false") as client, client.lock("x"):
        pass


@pytest.mark.parametrize(
    "more, checked", [("", True), ("?ssl_cert_reqs=none", False), ("?ssl_check_hostname=no", False)]
)
def test_the_host_name_is_checked_whatever_the_driver_would_do(more: str, checked: bool) -> None:
    found = settings(find(f"rediss://there.example{more}")[1])
    assert found.arguments["ssl_check_hostname"] is checked
