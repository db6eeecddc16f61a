"""holdfast in a program of gevent, which has patched all first: threads are greenlets there."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.testing.faults import RESP, Proxy
from holdfast.testing.surroundings import surroundings
from tests.servers.redis_server import RedisServer

#: A program that doesn't end by itself is given up after so long.
STUCK_S = 45.0


def under_gevent(text: str, *words: str) -> str:
    """What a program prints that has patched all first, as gevent wants it."""
    program = "from gevent import monkey\nmonkey.patch_all()\nimport sys, time, gevent\n"
    done = subprocess.run(
        [sys.executable, "-c", program + textwrap.dedent(text), *words],
        capture_output=True,
        text=True,
        timeout=STUCK_S,
        env=surroundings(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


HELD = """
    from holdfast import Client
    url, name = sys.argv[1:]
    client, order = Client(url), []

    def second():
        with client.lock(name, ttl=4, timeout=20):
            order.append("second")

    beats = []
    def beat():
        while True:
            time.sleep(0.05)
            beats.append(1)

    with client.lock(name, ttl=4) as hold:
        waits = gevent.spawn(second)
        gevent.spawn(beat)
        time.sleep(5.0)  # longer than the lease: it is renewed
        assert len(beats) > 12, "who waits holds up all others"
        hold.check()
        order.append("first")
    waits.get(timeout=20)
    time.sleep(1.5)  # what has been idle for long is looked at before it is used
    with client.lock(name, timeout=20):
        order.append("third")
    client.close()
    print(*order)
"""


@pytest.mark.parametrize("protocol", [2, 3])
def test_greenlets_hold_renew_and_hand_over_on_redis(
    redis_url: str, own_name: str, protocol: int
) -> None:
    done = under_gevent(HELD, f"{redis_url}?protocol={protocol}", own_name)
    assert done == "first second third\n"


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres", "mariadb", "zookeeper"])
def test_greenlets_hold_renew_and_hand_over(
    store: str, request: pytest.FixtureRequest, own_name: str, tmp_path: Path
) -> None:
    if store in ("memory", "sqlite"):
        url = "memory://" if store == "memory" else f"sqlite://{tmp_path}/locks.db"
    else:
        url = request.getfixturevalue(f"shared_{store}").url
    assert under_gevent(HELD, url, own_name) == "first second third\n"


def test_a_silent_server_holds_no_greenlet_up(shared_redis: RedisServer, own_name: str) -> None:
    text = """
        from holdfast import Client, StoreUnavailable
        beats = []
        def beat():
            while True:
                time.sleep(0.05)
                beats.append(1)
        gevent.spawn(beat)
        try:
            Client(sys.argv[1]).lock(sys.argv[2]).acquire(timeout=1.0)
        except StoreUnavailable:
            print("told", len(beats) > 2)
    """
    with Proxy(shared_redis.host, shared_redis.port, RESP) as proxy:
        proxy.blackhole()
        url = f"redis://127.0.0.1:{proxy.port}"
        assert under_gevent(text, url, own_name) == "told True\n"
