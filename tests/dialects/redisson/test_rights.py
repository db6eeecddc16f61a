"""The rights that the documentation lists are enough, and the doctor names missing rights."""

from __future__ import annotations

import re

from holdfast import Client
from holdfast.core.finding import Level
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.stores.examined import examined, troubles
from tests.tidy.tree import ROOT


def rights() -> list[str]:
    """The rights that the documentation page lists."""
    page = (ROOT / "docs/stores/redisson.md").read_text("utf-8")
    listed = re.search(r"## Rights\n\n```\n(.*?)```", page, re.DOTALL)
    assert listed is not None
    return listed[1].split()


def use_all(url: str) -> None:
    """Use every primitive and option, also with a waiter."""
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


def _log(server: RedisServer) -> list[list[bytes]]:
    """The commands that the server has denied."""
    found: list[list[bytes]] = server.ask("ACL", "LOG")
    return found


def test_the_rights_that_the_page_lists_are_enough(new_redis: NewRedis) -> None:
    user = f"user least on >secret resetchannels -@all ~* &redisson_* {' '.join(rights())}"
    server = new_redis(users=(user,))
    url = f"redis+redisson://least:secret@127.0.0.1:{server.port}/15"
    use_all(url)
    assert _log(server) == []
    assert "rights" not in troubles(url)


def test_a_good_server_is_found_good(shared_redis: RedisServer) -> None:
    assert troubles(f"redis+redisson://127.0.0.1:{shared_redis.port}/0") == {}


def test_a_right_that_is_lacking_is_named(new_redis: NewRedis) -> None:
    server = new_redis(users=("user poor on >secret ~* &* +@all -hincrby -scan",))
    found = examined(f"redis+redisson://poor:secret@127.0.0.1:{server.port}/0")["rights"]
    assert {one.level for one in found} == {Level.FAIL, Level.WARN}
    assert any("HINCRBY" in one.text for one in found)
    assert any("SCAN" in one.text for one in found)
