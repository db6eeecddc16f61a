"""The findings of ``holdfast doctor`` for a dialect, and the output of the commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from holdfast import Client
from holdfast.core.finding import Level
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.stores.examined import examined, one, troubles
from tests.tidy.tree import ROOT


@pytest.mark.parametrize("dialect", ["plain", "timestamp"])
def test_a_good_server_is_found_good(dialect: str, shared_redis: RedisServer) -> None:
    url = f"redis+{dialect}://127.0.0.1:{shared_redis.port}/0"
    assert troubles(url) == {}
    found = examined(url)
    assert found["rights"][0].text.endswith("may do all that is needed")
    assert ("waking" in found) is (dialect == "plain")


def test_what_makes_waiting_slow_is_a_warning(new_redis: NewRedis) -> None:
    rights = "~* +@all -client|tracking"
    server = new_redis(users=(f"user deaf on >secret {rights}",))
    waking = one(f"redis+plain://deaf:secret@127.0.0.1:{server.port}/0", "waking")
    assert (waking.level, waking.remedy) == (Level.WARN, "ACL SETUSER deaf +client|tracking")
    url = f"redis+plain://127.0.0.1:{server.port}/0?protocol=2"
    assert one(url, "waking").level is Level.WARN


def test_a_right_that_is_lacking_is_named(new_redis: NewRedis) -> None:
    server = new_redis(users=("user poor on >secret ~* +@all -evalsha -scan",))
    found = examined(f"redis+plain://poor:secret@127.0.0.1:{server.port}/0?prefix=L:")["rights"]
    (lacks,) = (finding for finding in found if finding.level is Level.FAIL)
    assert "EVALSHA" in lacks.text
    assert "+evalsha" in lacks.remedy
    assert any("holdfast ls" in finding.text for finding in found)
    server = new_redis(users=("user poor on >secret ~* +@all -getset",))
    url = f"redis+timestamp://poor:secret@127.0.0.1:{server.port}/0"
    assert "GETSET" in one(url, "rights").text


def test_a_server_that_may_drop_locks_is_a_warning(new_redis: NewRedis) -> None:
    server = new_redis("maxmemory 100mb", "maxmemory-policy volatile-ttl")
    assert one(f"redis+plain://127.0.0.1:{server.port}/0", "memory").level is Level.WARN


_PLAIN = (
    "+evalsha +script|load +get +set +exists +del +pttl +type +hexists +hget +pexpire +expire "
    "+hello +info +client|tracking +client|caching +scan +select +client|setname"
)
#: The rights that the documentation page lists, for keys that begin with ``L:``.
RIGHTS = {
    "plain": f"{_PLAIN} ~L:* ~{{L:*",
    "plain&signal=python-redis-lock": f"{_PLAIN} +lpush ~L:* ~{{L:* ~lock-signal:*",
    "timestamp": "+setnx +get +getset +del +hello +info +scan +select +client|setname ~L:*",
}


@pytest.mark.parametrize("way", RIGHTS)
def test_the_rights_that_the_page_lists_are_enough(way: str, new_redis: NewRedis) -> None:
    page = (ROOT / "docs/stores/dialects.md").read_text("utf-8")
    rights = RIGHTS[way].replace("L:", "PREFIX").split()
    assert {right for right in rights if right not in page} == set()
    server = new_redis(users=(f"user least on >secret resetchannels -@all {RIGHTS[way]}",))
    dialect, _, signal = way.partition("&")
    url = f"redis+{dialect}://least:secret@127.0.0.1:{server.port}/15?prefix=L:&{signal}"
    with Client(url) as locks, Client(url) as other:
        for _ in range(2):
            hold = locks.lock("x", ttl=20).acquire(timeout=5)
            assert hold is not None
            assert other.lock("x").acquire(timeout=0.2) is None
            assert hold.extend() > 10
            assert [line.name for line in other.inspect()] == ["x"]
            assert hold.release() is True
        hold = locks.lock("x").acquire(timeout=5)
        assert hold is not None
        (seen,) = other.inspect("x", exact=True)[0].holders
        assert other.break_("x", seen.fence) is True
        assert hold.release() is False
    assert server.ask("ACL", "LOG") == []


def command(url: str, *words: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        env={**os.environ, "HOLDFAST_URL": url, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_command_shows_a_foreign_holder_and_gives_no_fence(
    shared_redis: RedisServer, raw: redis.Redis, prefix: str, tmp_path: Path
) -> None:
    url = f"redis+plain://127.0.0.1:{shared_redis.port}/0?prefix={prefix}"
    theirs = raw.lock(f"{prefix}job")
    assert theirs.acquire()
    token = theirs.local.token.decode()
    listing = command(url, "ls", folder=tmp_path)
    shown = command(url, "show", "job", folder=tmp_path)
    (record,) = json.loads(command(url, "ls", "--json", folder=tmp_path))
    assert token not in listing + shown + repr(record)
    assert "token#" in listing
    assert "unknown" in listing
    assert "never" in shown
    (claim,) = record["claims"]
    assert (claim["age"], claim["since"], claim["expires_in"]) == (None, None, None)
    theirs.release()
    says = "import os; print(os.environ.get('HOLDFAST_FENCE'), os.environ['HOLDFAST_NAME'])"
    told = command(url, "run", "job", "--", sys.executable, "-c", says, folder=tmp_path)
    assert told.split() == ["None", "job"]
