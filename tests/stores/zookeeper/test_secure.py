"""TLS, and logins by SASL, with real servers that require them."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import AsyncClient, Client, ConfigError, StoreUnavailable
from tests.servers.process import free_port
from tests.servers.tls import Certificate
from tests.servers.zookeeper import ZooKeeperServer

NETTY = "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"
LOGINS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="secret" user_bob="other";
};
"""


# kazoo leaves the socket of a server open that it doesn't trust.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_by_tls_with_a_certificate_that_is_trusted_and_in_no_other_way(
    new_zookeeper: Callable[..., ZooKeeperServer],
    certificate: Certificate,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("CRITICAL", "holdfast.kazoo")  # or what is logged would keep the sockets
    port = free_port()
    new_zookeeper(
        f"secureClientPort={port}",
        "secureClientPortAddress=127.0.0.1",
        f"ssl.keyStore.location={certificate.both}",
        "ssl.keyStore.type=PEM",
        "ssl.clientAuth=none",
        java=[NETTY],
    )
    place = f"zookeeper://127.0.0.1:{port}?"
    with Client(f"{place}ca={certificate.certificate}") as client, client.lock("x") as hold:
        assert hold.extend() > 0
    _is_refused(place + "tls=on", r"is not trusted.*ca=")
    with Client(place) as client, pytest.raises(StoreUnavailable):
        client.lock("x").acquire(timeout=0.5)
    gc.collect()


def _is_refused(url: str, words: str) -> None:
    """Check that both faces refuse this URL at once."""

    async def by_task() -> None:
        async with AsyncClient(url) as client:
            await client.lock("x").acquire(timeout=60)

    began = time.monotonic()
    with Client(url) as client, pytest.raises(ConfigError, match=words):
        client.lock("x").acquire(timeout=60)
    with pytest.raises(ConfigError, match=words):
        asyncio.run(by_task())
    assert time.monotonic() - began < 40


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "login, options, words",
    [
        ("", "tls=on", "doesn't use TLS.*secureClientPort"),
        ("ann:secret@", "sasl=digest-md5", "supports no login by SASL: leave sasl= out"),
        ("", "sasl=gssapi", "needs the package kerberos"),
    ],
)
def test_a_server_without_the_requested_security_is_refused_at_once(
    zookeeper_url: str,
    login: str,
    options: str,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if "sasl" in options:
        pytest.importorskip("puresasl")
    caplog.set_level("CRITICAL", "holdfast.kazoo")  # or what is logged would keep the sockets
    _is_refused(zookeeper_url.replace("://", f"://{login}") + f"?{options}", words)
    gc.collect()


def test_a_login_by_sasl_owns_its_nodes_and_a_wrong_one_is_refused(
    new_zookeeper: Callable[..., ZooKeeperServer], tmp_path: Path
) -> None:
    pytest.importorskip("puresasl")
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(LOGINS)
    server = new_zookeeper(
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        java=[f"-Djava.security.auth.login.config={jaas}"],
    )

    def url(login: str) -> str:
        return server.url.replace("://", f"://{login}@") + "?sasl=digest-md5"

    with Client(url("ann:secret")) as client, client.lock("x"):
        assert len(client.inspect()) == 1
        with Client(url("bob:other")) as bob, pytest.raises(ConfigError, match="doesn't let us"):
            bob.inspect()
        with Client(url("ann:wrong")) as wrong, pytest.raises(ConfigError, match="credentials"):
            wrong.lock("x").acquire(timeout=5)
        with Client(server.url) as nobody, pytest.raises(ConfigError, match="doesn't let us"):
            nobody.lock("x").acquire(timeout=5)
