"""`doctor` on the clocks of servers that can replace each other."""

from __future__ import annotations

import pytest

from holdfast.core.finding import Level
from tests.servers.clock import Clock
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.stores.examined import examined, one


def replicated(new_redis: NewRedis, clock: Clock) -> tuple[RedisServer, RedisServer]:
    primary = new_redis()
    with clock.worn():
        replica = new_redis(f"replicaof {primary.host} {primary.port}")
    until(lambda: primary.ask("WAIT", 1, 100) == 1, "the replica follows")
    return primary, replica


@pytest.mark.parametrize("step, way", [(-20.0, "behind"), (3600.0, "ahead of")])
def test_a_replica_whose_clock_differs_is_named(
    new_redis: NewRedis, server_clock: Clock, step: float, way: str
) -> None:
    primary, replica = replicated(new_redis, server_clock)
    assert one(primary.url, "clocks").level is Level.OK
    server_clock.step(step)
    finding = one(primary.url, "clocks")
    assert finding.level is Level.WARN
    assert f"127.0.0.1:{replica.port} is" in finding.text
    assert f"{way} the primary" in finding.text
    assert "NTP" in finding.remedy


def test_a_replica_that_can_not_be_asked_is_named(new_redis: NewRedis, server_clock: Clock) -> None:
    primary, replica = replicated(new_redis, server_clock)
    replica.ask("CONFIG", "SET", "requirepass", "another")
    finding = one(primary.url, "clocks")
    assert finding.level is Level.WARN
    assert f"can't be asked from here: 127.0.0.1:{replica.port}" in finding.text


def test_a_server_without_replicas_is_compared_with_none(new_redis: NewRedis) -> None:
    assert "clocks" not in examined(new_redis().url)


def test_doctor_reports_the_grace_period_of_a_new_server(new_redis: NewRedis) -> None:
    server = new_redis(known=False)
    until(lambda: server.info("server")["uptime_in_seconds"] > 1, "it is older than the window")
    finding = one(f"{server.url}?grace=0.5", "recovery")
    assert finding.level is Level.WARN
    assert "granted 0.5 s after that" in finding.text
