"""`doctor` on the rights, the memory, the disk, the replicas and the keys of real servers."""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.finding import Level
from holdfast.stores.redis.blocking.doctor import keeping, rights
from holdfast.stores.redis.blocking.doctor import keys as keys_part
from holdfast.stores.redis.keys import keys_of
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.servers.redis_server import old_program
from tests.servers.sentinels import Watched
from tests.stores.examined import KEPT, examined, one
from tests.stores.redis.conftest import busy
from tests.stores.redis.test_doctor import expect
from tests.stores.redis.test_rights import PAGE
from tests.stores.redis.test_rights import rights as least_rights
from tests.stores.redis.test_rights import url as least_url

# -- rights ----------------------------------------------------------------------------------


def with_rights(new_redis: NewRedis, *without: str, more: str = "", old: bool = False) -> str:
    """Return the URL of a server for a user that has the least rights without some."""
    words = [word for word in least_rights() if word not in without]
    line = " ".join([*words, more])
    return least_url(new_redis(users=(line,), server=old_program() if old else None))


def test_missing_rights_for_queues_are_no_failure_for_locks(new_redis: NewRedis) -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"<!-- rights for queues -->\n```\n(.*?)```", text, re.DOTALL)
    assert found, "the page shows no rights"
    more = found[1].split()
    assert {word[1:] for word in more} == rights.QUEUES
    # For a user with rights for locks only, the finding names the missing rights for queues
    finding = expect(with_rights(new_redis, more="+info"), "queues", Level.WARN)
    assert set(more) <= set(finding.remedy.replace(",", "").split())
    # For a user that lacks a single right, the finding names that right
    line = [word for word in more if word != "+zpopmin"]
    expect(with_rights(new_redis, more=" ".join(line)), "queues", Level.WARN, "ZPOPMIN:")
    # And a user with all these rights can use queues, and the doctor finds no trouble
    url = with_rights(new_redis, more=" ".join(more))
    with Client(url) as client:
        client.queue("q").put_many([{"payload": n, "group": str(n), "id": str(n)} for n in (1, 2)])
        job = client.queue("q").take(timeout=5)
        expect(url, "queues", Level.OK)
        expect(url, "keys", Level.OK)
        assert job
        assert job.ack()


@pytest.mark.parametrize("old", [False, True], ids=["usual", "6.2"])
def test_with_minimal_rights_doctor_lists_the_missing_checks(
    new_redis: NewRedis, old: bool
) -> None:
    found = examined(with_rights(new_redis, "+info", "+get", "+set", old=old))
    (unseen,) = found["unseen"]
    assert unseen.level is Level.WARN
    assert "+info" in unseen.remedy
    (no_recovery,) = found["rights"]
    assert (no_recovery.level, "recovery" in no_recovery.text) == (Level.WARN, True)
    assert not {"memory", "persistence", "identity"} & set(found)
    assert Level.FAIL not in {each.level for list_ in found.values() for each in list_}


@pytest.mark.parametrize("old", [False, True], ids=["usual", "6.2"])
@pytest.mark.parametrize(
    "right, text",
    [
        *((f"+{one}", one.upper()) for one in ("hset", "evalsha", "time", "zadd", "hkeys", "get")),
        ("~holdfast:*", "begin with holdfast:"),
    ],
)
def test_a_missing_right_is_named(new_redis: NewRedis, right: str, text: str, old: bool) -> None:
    url = with_rights(new_redis, right, more="~other:*" if right[0] == "~" else "+info", old=old)
    (finding,) = (each for each in examined(url)["rights"] if each.level is Level.FAIL)
    assert text in finding.text
    assert right in finding.remedy.split()


@pytest.mark.parametrize("right", ["+scan", "+script|load"])
def test_what_goes_without_is_no_failure(new_redis: NewRedis, right: str) -> None:
    findings = examined(with_rights(new_redis, right, more="+info"))["rights"]
    assert right in [finding.remedy.split()[-1] for finding in findings]
    assert {finding.level for finding in findings} == {Level.WARN}


@pytest.mark.parametrize("gone", ["&holdfast:*", "+publish", "+subscribe"])
@pytest.mark.parametrize("protocol", [2, 3])
def test_without_the_right_to_a_channel_wake_ups_are_missed(
    new_redis: NewRedis, gone: str, protocol: int
) -> None:
    finding = expect(with_rights(new_redis, gone) + f"protocol={protocol}", "wake-ups", Level.WARN)
    assert gone in finding.remedy.split()


def test_a_command_that_was_taken_away(new_redis: NewRedis) -> None:
    server = new_redis('rename-command HRANDFIELD ""', "rename-command SCAN HIDDEN")
    must, spare = examined(server.url)["commands"]
    assert must.level is Level.FAIL
    assert "HRANDFIELD" in must.text
    assert "rename-command" in must.remedy
    assert spare.level is Level.WARN
    assert "SCAN" in spare.text


# -- memory, disk and replicas ---------------------------------------------------------------

#: The modes of the append-only file, and what a crash loses.
SYNCS = {
    "appendfsync always": "loses nothing",
    "appendfsync everysec": "the last second",
    "appendfsync no": "the system",
}
EVICTS = (*KEPT, "maxmemory 60mb", "maxmemory-policy volatile-ttl")


@pytest.mark.parametrize(
    "settings, options, subject, level, text, remedy",
    [
        (EVICTS, "", "eviction", Level.WARN, "volatile-ttl", "noeviction"),
        (EVICTS, "recovery=strict", "eviction", Level.FAIL, "volatile-ttl", "noeviction"),
        (("min-replicas-to-write 1",), "", "writing", Level.FAIL, "min-replicas-to-write", ""),
        ((), "replicas=1", "replicas", Level.FAIL, "replicas=1", ""),
        ((), "recovery=off", "persistence", Level.WARN, "every lock", "appendonly yes"),
        (("save 3600 1",), "recovery=off", "persistence", Level.WARN, "save 3600 1", "appendonly"),
        # Recovery makes up for the loss
        ((), "", "persistence", Level.OK, "", ""),
        *((("appendonly yes", how), "recovery=off", "persistence", Level.OK, text, "")
          for how, text in SYNCS.items()),
    ],
)  # fmt: skip
def test_a_setting_is_reported_with_its_remedy(
    settings: tuple[str, ...],
    options: str,
    subject: str,
    level: Level,
    text: str,
    remedy: str,
    new_redis: NewRedis,
) -> None:
    url = f"{new_redis(*settings, known=False).url}?{options}"
    finding = expect(url, subject, level, text, remedy=remedy)
    assert "has evicted" not in finding.text


def test_a_server_that_has_evicted_keys(new_redis: NewRedis) -> None:
    server = new_redis(*KEPT, "maxmemory 6mb", "maxmemory-policy volatile-ttl")
    for number in range(5000):
        server.ask("SET", f"filler{number}", "x" * 1000, "EX", 1000)
    expect(server.url, "eviction", Level.WARN, "has evicted")


def test_memory_that_is_full_and_that_will_be(new_redis: NewRedis) -> None:
    server = new_redis(*KEPT)
    server.ask("SETRANGE", "much", 60 << 20, "x")
    used = int(server.info("memory")["used_memory"])
    server.ask("CONFIG", "SET", "maxmemory", int(used * 1.2))
    expect(server.url, "memory", Level.OK)
    server.ask("CONFIG", "SET", "maxmemory", int(used * 1.06))
    expect(server.url, "memory", Level.WARN, remedy="maxmemory")
    server.ask("CONFIG", "SET", "maxmemory", 1)
    expect(server.url, "writing", Level.FAIL, "maxmemory")


def test_a_disk_that_cannot_be_written_to(new_redis: NewRedis) -> None:
    server = new_redis(*KEPT, "save 3600 1000000")
    in_its_place = server.data / "dump.rdb" / "something"
    in_its_place.mkdir(parents=True)
    server.ask("BGSAVE")
    until(lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err", "it has failed")
    found = examined(server.url)
    assert found["disk"][0].level is Level.WARN
    assert "log" in found["disk"][0].remedy
    # Then the server accepts no writes, unless its settings allow them
    assert found["writing"][0].level is Level.FAIL
    assert "disk" in found["writing"][0].text
    server.ask("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
    assert "writing" not in examined(server.url)


def test_a_replica_that_does_not_follow(
    new_watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = new_watched(replicas=2, sentinels=0)
    primary, stopped = watched.primary, watched.replicas[0]
    until(lambda: one(primary.url, "replicas").text.startswith("2, at most"), "all follow")
    # When one replica is stopped, and much is written
    stopped.stop()
    for _ in range(20):
        primary.ask("SET", "much", "x" * 100_000)
    finding = expect(primary.url, "replicas", Level.WARN, f":{stopped.port} is ")
    assert "MiB behind" in finding.text
    # And when a replica is only silent
    monkeypatch.setattr(keeping, "BEHIND_BYTES", 1 << 40)
    monkeypatch.setattr(keeping, "SILENT_S", 1)
    until(lambda: "silent for" in one(primary.url, "replicas").text, "its silence is noticed")
    stopped.go_on()


def test_doctor_reports_the_state_of_recovery(new_redis: NewRedis) -> None:
    # Given a server that has just started, and that no client has used
    server = new_redis(*KEPT, known=False)
    expect(server.url, "recovery", Level.WARN, "grants nothing")
    expect(f"{server.url}?recovery=off", "recovery", Level.OK)
    # When it is used, then it waits for possible holders
    with Client(f"{server.url}?grace=2") as locks:
        assert locks.lock("x").acquire(timeout=10)
    until(lambda: one(f"{server.url}?grace=2", "recovery").level is Level.OK, "all are granted")
    # And when it restarts with its records, it counts as another server
    server.restart(data=True)
    expect(f"{server.url}?grace=0.5", "recovery", Level.WARN)
    # And the doctor reports that during the grace period
    with Client(f"{server.url}?grace=20") as locks:
        with pytest.raises(StoreUnavailable):
            locks.lock("y").acquire(timeout=0.2)
        expect(f"{server.url}?grace=20", "recovery", Level.WARN, "just restarted")


def test_an_endless_script_of_another_client_is_a_failed_finding(new_redis: NewRedis) -> None:
    server = new_redis(*KEPT)
    with busy(server):
        findings = examined(server.url)
    assert findings["writing"][0].level is Level.FAIL
    assert "SCRIPT KILL" in findings["writing"][0].text


def test_few_connections_are_left(new_redis: NewRedis) -> None:
    server = new_redis("maxclients 20")
    expect(server.url, "connections", Level.OK)
    crowd = [socket.create_connection((server.host, server.port)) for _ in range(16)]
    until(lambda: server.info("clients")["connected_clients"] > 16, "they are there")
    expect(server.url, "connections", Level.WARN, remedy="maxclients")
    for each in crowd:
        each.close()


# -- the stored keys -------------------------------------------------------------------------


def test_foreign_keys_under_the_prefix_are_reported(new_redis: NewRedis) -> None:
    server = new_redis(*KEPT)
    for key in ("holdfast:config", "holdfast:{1}:wrong-bucket", "holdfast:{3}#other", "other:x"):
        server.ask("SET", key, "theirs")
    finding = expect(server.url, "keys", Level.WARN, "holdfast:config")
    assert finding.text.startswith("3 under holdfast: ")
    assert "other:x" not in finding.text
    # And another prefix has no foreign keys, unless one of its keys has another type
    url = f"{server.url}?prefix=mine"
    expect(url, "keys", Level.OK)
    key = keys_of("mine", b"taken")[0].decode()
    server.ask("SET", key, "theirs")
    expect(url, "keys", Level.WARN, f"of another type: {key}")


def test_a_key_whose_end_was_taken_away(new_redis: NewRedis) -> None:
    server = new_redis(*KEPT)
    with Client(server.url) as locks:
        locks.lock("x").acquire().release()
        server.ask("PERSIST", keys_of("holdfast", b"x")[0])
        expect(server.url, "keys", Level.WARN, remedy="PERSIST")


def test_the_scan_of_a_large_database_is_bounded(
    new_redis: NewRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_redis(*KEPT)
    server.ask("DEBUG", "POPULATE", 50_000)
    monkeypatch.setattr(keys_part, "LOOK_S", 0.0)
    findings = examined(server.url)["keys"]
    assert "too large to search" in findings[-1].text


def test_a_clock_that_was_set_back_is_found_by_the_fences(new_redis: NewRedis) -> None:
    server = new_redis(*KEPT)
    with Client(server.url) as locks:
        locks.lock("x").acquire().release()
        assert "fences" not in examined(server.url)
        # Given a fence from a time when the clock was an hour ahead
        key = keys_of("holdfast", b"x")[0]
        server.ask("HSET", key, "s", struct.pack(">d", int((time.time() + 3600) * 1e6)))
        expect(server.url, "fences", Level.WARN, "set back", remedy="NTP")
        # And later fences do continue from there
        assert locks.lock("x").acquire().fence > (time.time() + 3000) * 1e6
