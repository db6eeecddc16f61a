"""The findings of ``holdfast doctor`` for a dialect, and the output of the commands."""

from __future__ import annotations

import json
import sys

import pytest
import redis

from holdfast import Client
from holdfast.core.finding import Level
from tests.cli.world import holdfast
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.stores.examined import examined, one, troubles
from tests.tidy.tree import ROOT


@pytest.mark.usual(3)
@pytest.mark.parametrize("dialect", ["plain", "timestamp", "redisson"])
def test_a_good_server_is_found_good(dialect: str, shared_redis: RedisServer) -> None:
    url = f"redis+{dialect}://127.0.0.1:{shared_redis.port}/0"
    assert troubles(url) == {}
    found = examined(url)
    assert found["rights"][0].text.endswith("may do all that is needed")
    assert dialect == "redisson" or ("waking" in found) is (dialect == "plain")


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
    server = new_redis(users=("user poor on >secret ~* &* +@all -hincrby -scan",))
    found = examined(f"redis+redisson://poor:secret@127.0.0.1:{server.port}/0")["rights"]
    assert {one.level for one in found} == {Level.FAIL, Level.WARN}
    assert all(any(right in one.text for one in found) for right in ("HINCRBY", "SCAN"))


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


def use_all(url: str) -> None:
    """Use every primitive and option of Redisson, also with a waiter."""
    for words in ("", "?fair=true", "?fenced=true", "?client=3.8.1"):
        with Client(url + words) as locks, Client(url + words) as others:
            hold = locks.lock("lock", ttl=3.0).acquire()
            assert others.lock("lock").acquire(timeout=1.1) is None
            hold.check()
            (line,) = others.inspect("lock")
            assert others.break_("lock", line.holders[0].fence)
            assert hold.release() is False
    with Client(url) as locks, Client(url) as others:
        with locks.rwlock("rw").write as hold:
            hold.downgrade()
            with others.rwlock("rw").read:
                pass
            assert others.rwlock("rw").write.acquire(timeout=0.1) is None
        with locks.semaphore("permits", 3, weight=2, ttl=3.0):
            assert others.semaphore("permits", 3, weight=2).acquire(timeout=1.1) is None
            assert others.semaphore("permits", 3).resize(4) == 3


def test_the_rights_that_redissons_page_lists_are_enough(new_redis: NewRedis) -> None:
    page = (ROOT / "docs/stores/redisson.md").read_text("utf-8")
    rights = page.partition("## Rights\n\n```\n")[2].partition("```")[0].split()
    user = f"user least on >secret resetchannels -@all ~* &redisson_* {' '.join(rights)}"
    server = new_redis(users=(user,))
    url = f"redis+redisson://least:secret@127.0.0.1:{server.port}/15"
    use_all(url)
    assert server.ask("ACL", "LOG") == []
    assert "rights" not in troubles(url)


def test_the_command_shows_a_foreign_holder_and_gives_no_fence(
    shared_redis: RedisServer, raw: redis.Redis, prefix: str
) -> None:
    def command(*words: str) -> str:
        done = holdfast(*words, HOLDFAST_URL=url)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    url = f"redis+plain://127.0.0.1:{shared_redis.port}/0?prefix={prefix}"
    theirs = raw.lock(f"{prefix}job")
    assert theirs.acquire()
    token = theirs.local.token.decode()
    listing, shown = command("ls"), command("show", "job")
    (record,) = json.loads(command("ls", "--json"))
    assert token not in listing + shown + repr(record)
    assert "token#" in listing
    assert "unknown" in listing
    assert "never" in shown
    (claim,) = record["claims"]
    assert (claim["age"], claim["since"], claim["expires_in"]) == (None, None, None)
    theirs.release()
    says = "import os; print(os.environ.get('HOLDFAST_FENCE'), os.environ['HOLDFAST_NAME'])"
    told = command("run", "job", "--", sys.executable, "-c", says)
    assert told.split() == ["None", "job"]
