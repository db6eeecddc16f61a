"""Settings that the host of a server can choose: each works, or is one error with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import ConfigError
from tests.servers.cluster import Cluster
from tests.servers.fixtures import NewRedis
from tests.stores.host_settings import errors, refused, silent_about, use
from tests.stores.redis.several.conftest import slot_for
from tests.torture.scale import part

#: Lines of a redis.conf with which all of holdfast works.
SETTINGS = [
    "timeout 1",
    'rename-command HELLO ""',
    "databases 1",
    'rename-command CLIENT ""',
    *(f'rename-command {one} ""' for one in ("PUBLISH", "SUBSCRIBE", "CONFIG", "KEYS", "FLUSHALL")),
    *(f'rename-command {one} ""' for one in ("EVAL", "WAIT")),
    "notify-keyspace-events KEA",
    "maxmemory-policy allkeys-lru",
    "maxmemory-policy volatile-ttl",
    "protected-mode yes",
    "tcp-keepalive 0",
    "maxclients 3",
    "proto-max-bulk-len 1mb",
    "client-query-buffer-limit 1mb",
    "client-output-buffer-limit pubsub 1 1 1",
    "busy-reply-threshold 1",
    "appendonly yes",
    "lazyfree-lazy-user-del yes",
    "lazyfree-lazy-expire yes",
    "active-expire-effort 10",
    "hz 1",
    "io-threads 2",
    "tracking-table-max-keys 1",
    "acllog-max-len 0",
    "acl-pubsub-default resetchannels",
    "list-max-listpack-size 1",
    "hash-max-listpack-entries 0",
    "zset-max-listpack-entries 0",
    "maxmemory-clients 1",
    "slowlog-log-slower-than 0",
    "enable-debug-command no",
    "save 60 1",
    "dynamic-hz no",
]
#: Removed commands. The first line is needed by locks, the second only by other parts.
GONE = ("EVALSHA", "TIME", "HSET", "PEXPIRE", "SET", "GET")
GONE_ELSE = ("UNLINK", "SCRIPT", "SCAN", "PTTL", "ZREM", "ZADD", "DEL", "HGETALL")


@pytest.mark.parametrize("protocol", [3, 2])
@pytest.mark.parametrize("setting", part(SETTINGS, usual=3))
def test_holdfast_works_whatever_the_server_is_set_to(
    new_redis: NewRedis, setting: str, protocol: int
) -> None:
    known = setting not in ('rename-command HELLO ""', "databases 1")
    use(f"{new_redis(setting, known=known).url}?protocol={protocol}")


@pytest.mark.parametrize("gone", part(GONE, usual=2))
def test_a_renamed_command_is_reported_at_once(new_redis: NewRedis, gone: str) -> None:
    refused(new_redis(f'rename-command {gone} ""', known=gone != "SET").url, "was removed")


@pytest.mark.parametrize("gone", part(GONE_ELSE, usual=1))
def test_a_renamed_command_of_one_part_is_reported_where_it_is_used(
    new_redis: NewRedis, gone: str
) -> None:
    with pytest.raises(ConfigError, match="was removed"):
        use(new_redis(f'rename-command {gone} ""').url)


def test_a_setting_that_can_never_work_is_one_error_with_its_remedy(new_redis: NewRedis) -> None:
    # A password that the URL lacks, and a database that isn't there
    server = new_redis("requirepass sesame", "databases 1", known=False)
    refused(
        server.url, "it requires a password: put it into the URL, as in redis://:password@host/0"
    )
    refused(f"redis://:sesame@127.0.0.1:{server.port}/3", "no database with that number")
    # A user without scripts, and one without holdfast's keys
    users = ("user a on >sesame ~* &* +@all -@scripting", "user b on >sesame ~b* &* +@all")
    server = new_redis(users=users)
    refused(server.url_for("a", "sesame"), r"SETUSER.*\+evalsha")
    refused(server.url_for("b", "sesame"), "~holdfast:")


def test_a_node_of_a_cluster_is_distinguished_from_an_absent_server(tmp_path: Path) -> None:
    with Cluster(tmp_path, replicas=0) as cluster:
        owner = cluster.owner(slot_for("x"))
        other = next(one for one in cluster.servers if one is not owner)
        refused(other.url, "write redis.cluster://")


@pytest.mark.parametrize("protocol", [3, 2])
@pytest.mark.parametrize("gone", part(["AUTH", "HELLO", "CLIENT"], usual=1))
def test_a_password_is_shown_by_no_server_that_repeats_what_it_doesnt_know(
    new_redis: NewRedis, gone: str, protocol: int
) -> None:
    server = new_redis(*{f'rename-command {one} ""' for one in ("HELLO", gone)}, known=False)
    refused(
        f"redis://app:hunter2@127.0.0.1:{server.port}?protocol={protocol}",
        "no command AUTH" if gone == "AUTH" else "password is wrong",
        "hunter2",
    )


@pytest.mark.parametrize("scheme", ["redis+sentinel", "redis+cluster", "redis+redisson"])
def test_nor_by_any_other_way_to_it(new_redis: NewRedis, scheme: str) -> None:
    server = new_redis('rename-command AUTH ""', 'rename-command HELLO ""', known=False)
    path = {"redis+sentinel": "/main/0?sentinel_password=hunter2"}.get(scheme, "")
    url = f"{scheme}://app:hunter2@127.0.0.1:{server.port}{path}"
    silent_about("hunter2", errors(url))
