"""Holders that are killed, and holders that fork."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time

from holdfast import Client
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.servers.redis_server import RedisServer

HOLD = """
    import sys, time
    from holdfast import Client
    hold = Client(sys.argv[1]).lock(sys.argv[2], ttl=3.0).acquire()
    print("held", flush=True)
    time.sleep(60)
"""
FORK = """
    import os, sys, time
    from holdfast import Client
    locks = Client(sys.argv[1])
    hold = locks.lock(sys.argv[2]).acquire()
    child = os.fork()
    if not child:
        hold.release()
        other = locks.lock(sys.argv[2] + ":child").acquire()
        print("both hold", flush=True)
        sys.stdin.read()
        other.release()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    hold.check()
    print("still held", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_holder_held_is_free_after_its_ttl(
    shared_redis: RedisServer, own_name: str
) -> None:
    url = f"redis+redisson://127.0.0.1:{shared_redis.port}"
    command = [sys.executable, "-c", textwrap.dedent(HOLD), url, own_name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        time.sleep(3.3)  # by then it has been renewed
        with Client(url) as locks:
            assert locks.lock(own_name).acquire(blocking=False) is None
            holder.kill()
            begun = boottime()
            hold = locks.lock(own_name).acquire(timeout=10)
            assert hold is not None
            assert boottime() - begun < 3.0 + 3.0 + lag.since(begun)
            hold.release()


def test_a_forked_child_is_another_client_and_releases_nothing(
    shared_redis: RedisServer, own_name: str
) -> None:
    url = f"redis+redisson://127.0.0.1:{shared_redis.port}"
    command = [sys.executable, "-c", textwrap.dedent(FORK), url, own_name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"both hold\n"
        with shared_redis.client() as raw:
            (ours,) = raw.hkeys(own_name)
            (theirs,) = raw.hkeys(f"{own_name}:child")
            assert theirs.partition(b":")[0] != ours.partition(b":")[0]
            parent.stdin.close()
            assert parent.stdout.readline() == b"still held\n"
            assert raw.hkeys(own_name) == [ours]
            assert not raw.exists(f"{own_name}:child")
        parent.kill()
