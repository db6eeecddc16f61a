"""The servers of the tests: no stranger comes in, their clocks step, and they end with their
starter."""

from __future__ import annotations

import shutil
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

from holdfast.testing.faults import Subject
from holdfast.testing.faults.stage import Stage
from tests.servers import process
from tests.servers.clock import DECADE_S, STEPS_S, Clock
from tests.servers.fixtures import NewRedis
from tests.servers.mariadb_server import MariadbServer, template
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.servers.sentinels import Watched
from tests.servers.tls import Certificate

#: Maximum error in seconds between two readings of a clock on a machine that pauses.
SLACK_S = 5.0


def test_strangers_are_refused(new_redis: NewRedis, certificate: Certificate) -> None:
    user = "user app on >secret ~app:* +get +set"
    server = new_redis(password="sesame", users=(user,), tls=certificate)
    assert server.ask("PING")
    trusted = {"ssl_ca_certs": str(certificate.certificate)}
    with redis.Redis.from_url(server.tls_url, **trusted) as client:
        assert client.ping()
    with redis.Redis.from_url(server.url_for("app", "secret")) as client:
        assert client.set("app:x", 1)
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.set("other", 1)
    stranger = redis.Redis(port=server.port, retry=None)
    with stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    stranger = redis.Redis.from_url(server.tls_url, retry=None)
    with stranger, pytest.raises(redis.ConnectionError) as told:
        stranger.ping()
    assert isinstance(told.value.__cause__ or told.value.__context__, ssl.SSLError)


def test_a_replica_that_was_cut_off_lacks_what_was_written_since(
    new_watched: Callable[..., Watched],
) -> None:
    # Given replicas that receive no more writes, and a connection to one of them
    watched = new_watched(sentinels=0)
    watched.primary.ask("SET", "x", "old")
    watched.settled()
    watched.cut_off()
    watched.primary.ask("SET", "x", "new")
    replica = watched.replicas[0]
    with replica.client(single_connection_client=True) as client:
        # When it is promoted, that connection continues, without the missed write
        known = client.client_id()
        watched.promote(replica)
        assert client.set("y", 1)
        assert client.get("x") == b"old"
        assert client.client_id() == known


def test_a_killed_postgres_leaves_no_shared_memory() -> None:
    there = Path("/proc/sysvipc/shm")
    with PostgresServer() as server:
        server.crash()
        segment = server.segment
        assert segment in [int(line.split()[1]) for line in there.read_text().splitlines()[1:]]
    assert segment not in [int(line.split()[1]) for line in there.read_text().splitlines()[1:]]


# -- clocks ----------------------------------------------------------------------------------


def _redis_time(server: Any) -> float:
    seconds, micro = server.ask("TIME")
    return int(seconds) + int(micro) / 1e6


#: The request for the time of each server. MariaDB's ends in 2038.
TIMES: dict[str, tuple[tuple[float, ...], Callable[[Any], float]]] = {
    "redis": (STEPS_S, _redis_time),
    "postgres": (
        (DECADE_S, -DECADE_S, 0.0),
        lambda server: server.ask("SELECT extract(epoch FROM clock_timestamp())")[0][0],
    ),
    "mariadb": (
        (3600.0, -3600.0, 0.0),
        lambda server: server.ask("SELECT UNIX_TIMESTAMP(SYSDATE(6))")[0][0],
    ),
}


@pytest.mark.parametrize("kind", TIMES)
def test_a_server_follows_each_step_of_its_clock(
    kind: str, request: pytest.FixtureRequest, server_clock: Clock
) -> None:
    steps, told = TIMES[kind]
    new = request.getfixturevalue(f"new_{kind}")
    with server_clock.worn():
        server = new()
    other = new()
    for step in steps:
        server_clock.set(step)
        slack = min(SLACK_S, abs(step) / 2) or SLACK_S
        assert float(told(server)) - time.time() == pytest.approx(step, abs=slack)
        assert float(told(other)) - time.time() == pytest.approx(0.0, abs=SLACK_S)
    if kind == "redis":
        server.restart(data=False)
        server_clock.slew(100.0 - server_clock.ahead, over=0.2)
        assert server_clock.ahead == 100.0
        assert told(server) - time.time() == pytest.approx(100.0, abs=SLACK_S)


# -- the end ---------------------------------------------------------------------------------


def there(pid: int) -> bool:
    """Return whether the process runs; a zombie does not run."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def starts_a_server(stage: Stage, kind: str, folder: str) -> None:
    """Start a server, send its process id and its folders, and wait to be killed."""
    with (RedisServer if kind == "redis" else MariadbServer)(Path(folder)) as server:
        places = [server.place, template()] if isinstance(server, MariadbServer) else []
        stage.say([server.pid, *map(str, places)])
        stage.hear()


@pytest.mark.parametrize("kind", ["redis", "mariadb"])
def test_no_server_outlives_its_starter(kind: str, tmp_path: Path) -> None:
    with Subject(f"{__name__}:starts_a_server", kind, str(tmp_path)) as one:
        pid, *places = one.hear()
        assert there(pid)
        one.kill()
    until(lambda: not there(pid), "the server is gone, too")
    for place in places:
        shutil.rmtree(place)


def test_it_must_be_started_where_it_will_not_end_too_soon(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(AssertionError, match="main thread"):
        pool.submit(RedisServer, tmp_path).result()


@pytest.mark.parametrize("ci", [False, True])
def test_without_the_program_a_test_is_skipped_or_in_ci_failed(
    monkeypatch: pytest.MonkeyPatch, ci: bool
) -> None:
    monkeypatch.setenv("CI", "true" if ci else "")
    expected = pytest.fail.Exception if ci else pytest.skip.Exception
    with pytest.raises(expected, match="no no-such-program"):
        process.need("no-such-program")


def test_the_error_of_a_failed_start_or_wait_names_its_reason(new_redis: NewRedis) -> None:
    with pytest.raises(AssertionError, match="no-such-setting"):
        new_redis("no-such-setting yes")
    with pytest.raises(AssertionError, match="still not: pigs fly"):
        process.until(lambda: False, "pigs fly", 0.05)
