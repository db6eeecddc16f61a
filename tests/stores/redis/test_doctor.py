"""`doctor` on real servers: it finds the defect of each server, and names the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from holdfast import Client, ConfigError
from holdfast.core.finding import Finding, Level
from holdfast.runtime.blocking import walltime
from holdfast.stores.redis.blocking import doctor
from holdfast.stores.redis.blocking.doctor import reach, visit
from holdfast.stores.redis.blocking.doctor.server import version
from holdfast.testing.faults import RESP, Proxy, delay_reply
from tests.servers.cluster import Cluster
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program
from tests.servers.sentinels import Watched
from tests.stores.examined import KEPT, Between, examined, one, troubles

CANARY = "hunter2"
#: The subjects of the findings on a server without defects.
ALL = {
    "server", "role", "identity", "latency", "clock", "wake-ups", "rights", "recovery", "memory",
    "persistence", "keys",
}  # fmt: skip


def expect(url: str, subject: str, level: Level, text: str = "", *, remedy: str = "") -> Finding:
    """Check the level of the one finding of a subject, and words in its text and its remedy."""
    finding = one(url, subject)
    assert finding.level is level
    assert text in finding.text
    assert remedy in finding.remedy
    return finding


# -- a server without defects ----------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("old", [False, True], ids=["usual", "6.2"])
def test_a_good_server_is_well_and_every_part_is_spoken_of(
    new_redis: NewRedis, protocol: int, old: bool
) -> None:
    server = new_redis(*KEPT, server=old_program() if old else None)
    url = f"{server.url}?protocol={protocol}"
    with Client(url) as locks, locks.lock("x"), locks.semaphore("y", 2), locks.semaphore("y", 2):
        assert troubles(url) == {}
        found = examined(url)
        assert set(found) >= ALL
        assert f"RESP{protocol}" in found["server"][0].text


def test_it_leaves_nothing_behind_and_changes_nothing(new_redis: NewRedis) -> None:
    server = new_redis(*KEPT)
    with Client(server.url) as locks:
        locks.lock("x").acquire()
        before = {key: server.ask("DUMP", key) for key in server.ask("KEYS", "*")}
        changes = server.info("persistence")["rdb_changes_since_last_save"]
        examined(server.url)
        assert {key: server.ask("DUMP", key) for key in server.ask("KEYS", "*")} == before
        assert server.info("persistence")["rdb_changes_since_last_save"] == changes


def test_a_password_is_never_shown(new_redis: NewRedis) -> None:
    server = new_redis(password=CANARY)
    shown = repr(examined(server.url))
    assert "server" in shown
    assert CANARY not in shown
    with pytest.raises(ConfigError) as failure:
        examined(server.url.replace(CANARY, CANARY * 2))
    assert CANARY not in str(failure.value)


# -- the kind and the identity of the server -------------------------------------------------


def test_a_replica_is_no_place_for_locks(new_watched: Callable[..., Watched]) -> None:
    watched = new_watched(replicas=1, sentinels=0)
    expect(
        watched.replicas[0].url, "role", Level.FAIL, f":{watched.primary.port}", remedy="primary"
    )
    # And a replica that has lost its primary gets the same finding
    watched.cut_off()
    assert "(not connected to it now)" in one(watched.replicas[0].url, "role").text


def test_a_sentinel_keeps_no_data(new_watched: Callable[..., Watched]) -> None:
    watched = new_watched(replicas=0, sentinels=1)
    expect(f"redis://127.0.0.1:{watched.sentinels[0].port}", "kind", Level.FAIL, "sentinel")


def test_a_node_of_a_cluster_has_a_part_of_the_names(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(replicas=0)
    expect(cluster.servers[0].url, "kind", Level.FAIL, "state is ok")


@pytest.mark.parametrize(
    "told, level",
    [("5.0.14", "fail"), ("6.0.16", "fail"), ("6.2.0", "ok"), ("7.4.1", "ok"), ("10.0", "ok")],
)
def test_a_server_that_is_too_old_is_reported_with_the_needed_version(
    told: str, level: str
) -> None:
    for hello, info in (({"version": told.encode()}, {}), ({}, {"redis_version": told})):
        finding = version(hello, info, 3)
        assert finding.level == level
        assert told in finding.text
        assert ("6.2" in finding.remedy) == (level == "fail")
    assert "Valkey 8.1.0" in version({}, {"redis_version": told, "valkey_version": "8.1.0"}, 3).text
    assert version({}, {}, 2).level is Level.WARN


@pytest.fixture
def balanced(new_redis: NewRedis) -> Iterator[str]:
    with Between(new_redis(), new_redis()) as balancer:
        yield balancer.url


def test_an_address_of_two_servers_is_reported_as_unusable(balanced: str) -> None:
    expect(balanced, "identity", Level.FAIL, "2 different servers", remedy="proxy")


def test_a_wake_up_published_at_another_server_never_arrives(
    balanced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor.server, "CHECKS", {})
    monkeypatch.setattr(reach, "LOST_S", 0.1)
    expect(balanced, "wake-ups", Level.WARN, "did not arrive")


def test_a_server_that_hides_which_one_it_is(shared_redis: RedisServer) -> None:
    run_id = shared_redis.info("server")["run_id"].encode()
    zeros = b"0" * len(run_id)
    with Between(shared_redis, change=lambda said: said.replace(run_id, zeros)) as proxy:
        expect(proxy.url, "identity", Level.WARN, "hides its run id")


# -- latency and clock -----------------------------------------------------------------------


def test_a_slow_answer_is_noticed(shared_redis: RedisServer) -> None:
    with Proxy(shared_redis.host, shared_redis.port, RESP) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}"
        fault = proxy.arm(b"TIME", delay_reply(0.3))
        expect(url, "latency", Level.WARN, remedy="SLOWLOG")
        assert fault.hits == 1
        expect(url, "latency", Level.OK)


@pytest.mark.parametrize("apart, way", [(-90.0, "ahead of"), (3600.0, "behind")])
def test_clocks_that_differ(
    redis_url: str, apart: float, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visit, "walltime", lambda: walltime() + apart)
    finding = expect(redis_url, "clock", Level.WARN, way)
    assert f"{abs(apart):,.1f} s" in finding.text
