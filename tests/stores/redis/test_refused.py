"""A server that refuses, is silent, needs another password, or is no Redis: a clear error, soon."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from holdfast import Client, ConfigError, StoreUnavailable
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Proxy
from tests.servers.fixtures import NewRedis
from tests.servers.process import free_port
from tests.servers.redis_server import RedisServer, old_program, program
from tests.servers.tls import Certificate
from tests.stores.redis.conftest import MakeClient

TIMEOUT_S = 1.0
#: A time-out for cases that are refused immediately.
PLENTY_S = 10.0
LATE_S = 2.0
CANARY = "hunter2"
# The lag of the machine itself is measured and subtracted.
lag.watch()


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that accepts connections and never sends anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def full() -> Iterator[int]:
    """A port whose host drops every packet, so that no connection is accepted."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        crowd = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            crowd.append(one)
        yield port
        for one in crowd:
            one.close()


def unavailable(client: Client, name: str = "x") -> str:
    """Return the text of the error, which must come in time and be StoreUnavailable."""
    begun = boottime()
    with pytest.raises(StoreUnavailable) as failure:
        client.lock(name).acquire(timeout=TIMEOUT_S)
    assert boottime() - begun - lag.since(begun) <= TIMEOUT_S + LATE_S
    return str(failure.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_that_refuses(host: str, new_client: MakeClient) -> None:
    port = free_port()
    text = unavailable(new_client(f"redis://{host}:{port}"))
    assert f"redis://{host}:{port}/0" in text
    assert "refused" in text


@pytest.mark.parametrize("tls", ["", "s"])
def test_a_server_that_accepts_and_never_answers_is_an_error(
    tls: str, silent: int, new_client: MakeClient
) -> None:
    text = unavailable(new_client(f"redis{tls}://127.0.0.1:{silent}"))
    assert "did not answer" in text


def test_a_host_that_swallows_everything(full: int, new_client: MakeClient) -> None:
    assert "did not answer" in unavailable(new_client(f"redis://127.0.0.1:{full}"))


@pytest.mark.parametrize("how", ["blackhole", "hold", "refuse"])
def test_a_server_that_goes_away_while_we_are_connected(
    how: str, by_proxy: Client, proxy: Proxy, own_name: str
) -> None:
    # Given
    with by_proxy.lock(own_name):
        pass
    # When
    getattr(proxy, how)()
    # Then
    unavailable(by_proxy, own_name)
    # And when the server is back, the client works
    proxy.heal()
    with by_proxy.lock(own_name, timeout=5):
        pass


def test_a_server_that_stands_still(new_redis: NewRedis, new_client: MakeClient) -> None:
    server = new_redis()
    client = new_client(server.url)
    with client.lock("x"):
        pass
    server.stop()
    unavailable(client)
    server.go_on()
    with client.lock("x", timeout=5):
        pass


def test_a_restart_of_the_server_between_two_calls_causes_no_error(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis()
    client = new_client(server.url)
    with client.lock("x") as first:
        pass
    server.restart(data=False)
    with client.lock("x", timeout=15) as second:
        assert second.fence > first.fence


def test_an_idle_connection_that_was_closed_is_not_used(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    # Given a connection that was idle for a while and is closed then
    server = new_redis()
    client = new_client(server.url)
    with client.lock("x"):
        pass
    link = client._ctx.store._port._pool[-1]  # type: ignore[attr-defined]
    link.used -= 2.0
    server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    # When, then: no request is sent twice, so no tombstone is needed
    with client.lock("x", timeout=5):
        pass
    assert not server.ask("KEYS", "holdfast:*!x")


@pytest.mark.parametrize(
    "login, words",
    [
        ("", "put it into the URL"),
        (f":{CANARY}@", "user name or password is wrong"),
        (f"ann:{CANARY}@", "user name or password is wrong"),
    ],
)
@pytest.mark.parametrize("protocol", [3, 2])
def test_a_login_that_is_wrong(
    login: str, words: str, protocol: int, new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis(password="sesame")
    url = f"redis://{login}127.0.0.1:{server.port}?protocol={protocol}"
    with pytest.raises(ConfigError) as failure:
        new_client(url).lock("x").acquire(timeout=PLENTY_S)
    assert words in str(failure.value)
    assert CANARY not in str(failure.value)
    with new_client(server.url).lock("x"):
        pass


def test_a_password_that_the_server_doesnt_want(redis_url: str, new_client: MakeClient) -> None:
    url = redis_url.replace("redis://", f"redis://:{CANARY}@") + "?protocol=2"
    with pytest.raises(ConfigError, match="it has no password") as failure:
        new_client(url).lock("x").acquire(timeout=PLENTY_S)
    assert CANARY not in str(failure.value)


def test_a_database_that_isnt_there(shared_redis: RedisServer, new_client: MakeClient) -> None:
    url = f"redis://127.0.0.1:{shared_redis.port}/77"
    with pytest.raises(ConfigError, match="DB index is out of range"):
        new_client(url).lock("x").acquire(timeout=PLENTY_S)


def test_tls(new_redis: NewRedis, new_client: MakeClient, certificate: Certificate) -> None:
    server = new_redis(tls=certificate)
    trusted = f"{server.tls_url}?ssl_ca_certs={certificate.certificate}"
    client = new_client(trusted)
    took = []
    for _ in range(3):
        with client.lock("x") as hold:
            found: list[int] = []
            thread = threading.Thread(target=lambda: found.append(_fence(client)))  # noqa: B023
            thread.start()
            while not client.inspect("x")[0].waiters:
                time.sleep(0.001)
            begun = boottime()
        thread.join(10)
        took.append(boottime() - begun - lag.since(begun))
        assert found[0] > hold.fence
    # The first wait can begin without a listener. If no wait had one, each would take a second
    assert min(took) < 0.5
    # An idle TLS connection is checked, too
    port = client._ctx.store._port  # type: ignore[attr-defined]
    for link in port._pool:
        link.used -= 2.0
    before = set(port._pool)
    with client.lock("x"):
        pass
    assert set(port._pool) & before
    # Wrong ways to connect
    with pytest.raises(ConfigError, match="ssl_ca_certs"):
        new_client(server.tls_url).lock("x").acquire(timeout=PLENTY_S)
    assert "without TLS write redis://" in unavailable(
        new_client(f"rediss://127.0.0.1:{server.port}")
    )
    assert "rediss" in unavailable(new_client(f"redis://127.0.0.1:{server.tls_port}"))


def _fence(client: Client) -> int:
    with client.lock("x", timeout=10) as hold:
        return hold.fence


def test_something_else_at_the_port(new_client: MakeClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def answer() -> None:
            while not over.is_set():
                one, _ = listener.accept()
                one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                one.close()

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(ConfigError, match="is no Redis"):
            new_client(f"redis://127.0.0.1:{listener.getsockname()[1]}").lock("x").acquire(
                timeout=1
            )
        over.set()


def test_an_answer_over_which_the_driver_stumbles_is_no_error_of_the_driver(
    new_client: MakeClient,
) -> None:
    """redis-py searches the reply OK for the parts of a greeting."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    one, _ = listener.accept()
                    with one:
                        one.recv(1000)
                        one.sendall(b"+OK\r\n" * 20)
                        one.recv(1000)

        threading.Thread(target=answer, daemon=True).start()
        client = new_client(f"redis://127.0.0.1:{listener.getsockname()[1]}")
        told = False
        try:
            client.lock("x").acquire(timeout=1)
        except Exception as wrong:
            told = isinstance(wrong, ConfigError) and "is no Redis" in str(wrong)
    assert told


def test_a_unix_socket(shared_redis: RedisServer, new_client: MakeClient, own_name: str) -> None:
    for url in (shared_redis.unix_url, "redis+" + shared_redis.unix_url):
        with new_client(url).lock(own_name):
            assert new_client().inspect(own_name)
    with pytest.raises(StoreUnavailable, match="/nowhere"):
        new_client("redis+unix:///nowhere/socket").lock("x").acquire(timeout=0.2)


@pytest.mark.parametrize("which", [program, old_program], ids=["debian", "6.2"])
def test_scripts_that_were_flushed_are_loaded_again(
    which: Callable[[], str], new_redis: NewRedis, new_client: MakeClient
) -> None:
    server = new_redis(server=which())
    client = new_client(server.url)
    for _ in range(3):
        with client.lock("x") as hold:
            server.ask("SCRIPT", "FLUSH")
            hold.extend()
            server.ask("SCRIPT", "FLUSH")
            assert client.inspect()
            server.ask("SCRIPT", "FLUSH")
    # And several names in one request
    with client.all(*(f"x{number}" for number in range(10))):
        server.ask("SCRIPT", "FLUSH")
        assert len(client.inspect()) == 10
