"""TLS, and logins by SASL, with real servers that require them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import AsyncClient, Client, ConfigError, StoreUnavailable
from holdfast.testing.faces import FACES
from tests.servers.process import free_port
from tests.servers.tls import Certificate
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.zookeeper.conftest import play

NETTY = "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"
LOGINS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="secret" user_bob="other";
};
"""


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Log nothing, because that would keep sockets; collect the sockets that kazoo leaves open."""
    caplog.set_level("CRITICAL", "holdfast.kazoo")
    yield
    gc.collect()


def refused(url: str, words: str) -> None:
    """Check that both faces refuse this URL at once."""

    async def act(client: AsyncClient) -> None:
        with pytest.raises(ConfigError, match=words):
            await client.lock("x").acquire(timeout=60)

    began = time.monotonic()
    for face in FACES.values():
        play(face, url, act, 100.0)
    assert time.monotonic() - began < 40


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("quiet")
def test_by_tls_with_a_certificate_that_is_trusted_and_in_no_other_way(
    new_zookeeper: Callable[..., ZooKeeperServer], certificate: Certificate
) -> None:
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
    refused(place + "tls=on", r"is not trusted.*ca=")
    with Client(place) as client, pytest.raises(StoreUnavailable):
        client.lock("x").acquire(timeout=0.5)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    "login, options, words",
    [
        ("", "tls=on", "doesn't use TLS.*secureClientPort"),
        ("ann:secret@", "sasl=digest-md5", "supports no login by SASL: leave sasl= out"),
        ("", "sasl=gssapi", "needs the package kerberos"),
    ],
)
def test_a_server_without_the_requested_security_is_refused_at_once(
    zookeeper_url: str, login: str, options: str, words: str
) -> None:
    if "sasl" in options:
        pytest.importorskip("puresasl")
    refused(zookeeper_url.replace("://", f"://{login}") + f"?{options}", words)


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
