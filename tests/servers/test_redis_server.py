"""The Redis servers of the tests have the requested settings, and end with their starter."""

from __future__ import annotations

import signal
import ssl
import threading
import time
from pathlib import Path

import pytest
import redis

from holdfast.testing.faults import Subject, SubjectGone
from holdfast.testing.faults.stage import Stage
from tests.servers import process
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.servers.tls import Certificate


def there(pid: int) -> bool:
    """Return whether the process runs; a zombie does not run."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_the_shared_server_answers(shared_redis: RedisServer, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.ping()
    assert shared_redis.version >= (6, 2)
    assert shared_redis.calls()["ping"] >= 1


def test_settings_are_lines_of_its_configuration(new_redis: NewRedis) -> None:
    server = new_redis("maxmemory 3mb", "maxmemory-policy noeviction")
    with server.client() as client, pytest.raises(redis.exceptions.OutOfMemoryError):
        client.set("much", bytes(4 << 20))


def test_the_error_for_a_wrong_setting_names_it(new_redis: NewRedis) -> None:
    with pytest.raises(AssertionError, match="no-such-setting"):
        new_redis("no-such-setting yes")


@pytest.mark.parametrize("settings", [(), ("appendonly yes",)], ids=["memory", "appendonly"])
def test_a_restart_with_and_without_data(new_redis: NewRedis, settings: tuple[str, ...]) -> None:
    server = new_redis(*settings)
    first = server.pid, server.info("server")["run_id"]
    with server.client() as client:
        client.set("x", 1)
        # When it restarts with its data, it is another process and has the data
        server.restart(data=True)
        assert client.get("x") == b"1"
        assert first != (server.pid, server.info("server")["run_id"])
        assert not there(first[0])
        # And without its data, it is empty, at the same port
        server.restart(data=False)
        assert client.get("x") is None


def test_after_a_crash_it_knows_what_was_on_its_disk(new_redis: NewRedis) -> None:
    server = new_redis("appendonly yes", "appendfsync always")
    with server.client() as client:
        client.set("x", 1)
        server.kill()
        assert not server.runs
        with (
            redis.Redis(port=server.port, retry=None) as other,
            pytest.raises(redis.ConnectionError),
        ):
            other.get("x")
        server.start()
        assert client.get("x") == b"1"


def test_a_stopped_server_is_silent_until_it_is_continued(new_redis: NewRedis) -> None:
    server = new_redis()
    with server.client(socket_timeout=0.1, retry=None) as client:
        server.stop()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.go_on()
        until(lambda: server.ask("PING"), "it answers again")


def test_a_stopped_server_can_be_ended(new_redis: NewRedis) -> None:
    server = new_redis()
    server.stop()
    server.close()
    assert not server.runs


def test_a_password_and_users(new_redis: NewRedis) -> None:
    server = new_redis(password="sesame", users=("user app on >secret ~app:* +get +set",))
    with (
        redis.Redis(port=server.port, retry=None) as other,
        pytest.raises(redis.AuthenticationError),
    ):
        other.ping()
    with redis.Redis.from_url(server.url) as all_rights:
        assert all_rights.ping()
    with redis.Redis.from_url(server.url_for("app", "secret")) as client:
        assert client.set("app:x", 1)
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.set("other", 1)
    with redis.Redis.from_url(server.unix_url) as local:
        assert local.get("app:x") == b"1"


def test_a_password_alone(new_redis: NewRedis) -> None:
    server = new_redis(password="sesame")
    with (
        redis.Redis(port=server.port, retry=None) as other,
        pytest.raises(redis.AuthenticationError),
    ):
        other.ping()
    with redis.Redis.from_url(server.url) as client:
        assert client.ping()


def test_tls_with_its_own_certificate(new_redis: NewRedis, certificate: Certificate) -> None:
    server = new_redis(tls=certificate)
    trusted = str(certificate.certificate)
    with redis.Redis.from_url(server.tls_url, ssl_ca_certs=trusted) as client:
        assert client.ping()
    with (
        redis.Redis.from_url(server.tls_url, retry=None) as stranger,
        pytest.raises(redis.ConnectionError) as told,
    ):
        stranger.ping()
    assert isinstance(told.value.__cause__ or told.value.__context__, ssl.SSLError)


# -- the end ---------------------------------------------------------------------------------


def starts_a_server(stage: Stage, folder: str) -> None:
    """Start a server, send its process id, and wait to be killed."""
    with RedisServer(Path(folder)) as server:
        stage.say(server.pid)
        stage.hear()


@pytest.mark.parametrize("how", ["politely", "killed"])
def test_no_server_outlives_its_starter(tmp_path: Path, how: str) -> None:
    with Subject(f"{__name__}:starts_a_server", str(tmp_path)) as one:
        pid = one.hear()
        assert there(pid)
        if how == "killed":
            one.kill()
            with pytest.raises(SubjectGone):
                one.hear()
        else:
            assert one.end() == 0
    until(lambda: not there(pid), "the server is gone, too")


def test_it_must_be_started_where_it_will_not_end_too_soon(tmp_path: Path) -> None:
    failures = []

    def elsewhere() -> None:
        try:
            RedisServer(tmp_path)
        except AssertionError as failure:
            failures.append(str(failure))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert ["main thread" in one for one in failures] == [True]


@pytest.mark.parametrize("ci", [False, True])
def test_without_the_program_a_test_is_skipped_or_in_ci_failed(
    monkeypatch: pytest.MonkeyPatch, ci: bool
) -> None:
    monkeypatch.setenv("CI", "true" if ci else "")
    expected = pytest.fail.Exception if ci else pytest.skip.Exception
    with pytest.raises(expected, match="no no-such-program"):
        process.need("no-such-program")


def test_the_error_of_a_failed_wait_names_its_condition() -> None:
    begun = time.monotonic()
    with pytest.raises(AssertionError, match="still not: pigs fly"):
        process.until(lambda: False, "pigs fly", 0.05)
    assert time.monotonic() - begun < 5


def test_signals_reach_the_server_itself(new_redis: NewRedis) -> None:
    server = new_redis()
    server.signal(signal.SIGTERM)
    until(lambda: not server.runs, "it has ended by itself")
