"""A server's wall clock follows the steps of the test; no other clock moves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.servers.clock import DECADE_S, STEPS_S, Clock
from tests.servers.fixtures import NewRedis
from tests.servers.mariadb_server import MariadbServer
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import Program
from tests.servers.redis_server import RedisServer

#: Maximum error in seconds between two readings of a clock on a machine that pauses.
SLACK_S = 5.0


def worked(server: Program) -> float:
    """The processor time in seconds that this program has used."""
    stat = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def redis_ahead(server: RedisServer) -> float:
    seconds, micro = server.ask("TIME")
    return int(seconds) + int(micro) / 1e6 - time.time()


def test_a_redis_follows_each_step_and_keeps_its_clock_over_a_restart(
    new_redis: NewRedis, server_clock: Clock
) -> None:
    with server_clock.worn():
        server = new_redis()
    other = new_redis()
    for step in STEPS_S:
        server_clock.set(step)
        assert redis_ahead(server) == pytest.approx(step, abs=min(SLACK_S, abs(step) / 2))
        assert redis_ahead(other) == pytest.approx(0.0, abs=SLACK_S)
    server.restart(data=False)
    assert redis_ahead(server) == pytest.approx(-DECADE_S, abs=SLACK_S)


def test_a_clock_is_slewed_through_all_that_lies_between(
    new_redis: NewRedis, server_clock: Clock
) -> None:
    with server_clock.worn():
        server = new_redis()
    server_clock.slew(100.0, over=0.2)
    assert server_clock.ahead == 100.0
    assert redis_ahead(server) == pytest.approx(100.0, abs=SLACK_S)


def test_a_postgres_follows_a_step_in_sessions_that_are_open(
    new_postgres: Callable[..., PostgresServer], server_clock: Clock
) -> None:
    with server_clock.worn():
        server = new_postgres()
    with psycopg.connect(server.url, autocommit=True) as session:
        for step in (DECADE_S, -DECADE_S, 0.0):
            server_clock.set(step)
            row = session.execute("SELECT extract(epoch FROM clock_timestamp())").fetchone()
            assert row
            assert float(row[0]) - time.time() == pytest.approx(step, abs=SLACK_S)


def test_a_mariadb_follows_a_step_in_sessions_that_are_open(
    new_mariadb: Callable[..., MariadbServer], server_clock: Clock
) -> None:
    with server_clock.worn():
        server = new_mariadb()
    for step in (3600.0, -3600.0, 0.0):
        server_clock.set(step)
        said = server.ask("SELECT UNIX_TIMESTAMP(SYSDATE(6))")
        assert float(said[0][0]) - time.time() == pytest.approx(step, abs=SLACK_S)


def test_a_mariadb_whose_clock_is_set_back_sleeps_as_before(
    new_mariadb: Callable[..., MariadbServer], server_clock: Clock
) -> None:
    with server_clock.worn():
        server = new_mariadb()
    server_clock.set(-DECADE_S)
    server.ask("SELECT 1")
    before = worked(server)
    time.sleep(1.0)
    assert worked(server) - before < 0.4
