"""A lock under gevent, on every store. ``tests/conformance/test_worlds.py`` tests the rest."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.testing.surroundings import surroundings

#: Seconds after which a program that doesn't end is killed.
STUCK_S = 45.0


def under_gevent(text: str, *words: str) -> str:
    """Return the output of a program that first patches all modules, as gevent requires."""
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
        assert len(beats) > 12, "a waiter delays all others"
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
