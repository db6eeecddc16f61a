"""A waiter that dies or freezes delays the others by its waiter TTL, and by no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from holdfast import Client
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Subject
from holdfast.testing.faults.stage import Stage
from tests.servers.redis_server import RedisServer
from tests.stores.redis.conftest import Look, addresses, connections, eventually, waits

PATIENCE_S = 3.0
#: A server or another process can be late by this much, and the test can't measure that.
LATE_S = 2.0
#: The lag of the machine itself is measured and subtracted.
lag.watch()


def wait(stage: Stage, url: str, name: str) -> None:
    """Wait for the lock, report the fence, and hold until the test sends a message."""
    with Client(url) as client, client.lock(name, timeout=30) as held:
        stage.say(held.fence)
        stage.hear()


def served(locks: Client, name: str) -> Callable[[], float]:
    """Start a thread that waits for the lock; the function returns when it held the lock."""
    at: list[float] = []

    def work() -> None:
        with locks.lock(name, timeout=30):
            at.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    return lambda: (thread.join(20), at[0])[1]


@pytest.mark.usual(1)
@pytest.mark.parametrize("protocol", [3, 2])
def test_a_killed_waiter_costs_those_behind_it_milliseconds(
    protocol: int, locks: Client, shared_redis: RedisServer, own_name: str, line: Look
) -> None:
    late = []
    for _ in range(5):
        # Given a holder, a waiter, and another waiter behind it
        hold = locks.lock(own_name).acquire()
        url = f"{shared_redis.url}?protocol={protocol}"
        with Subject(f"{__name__}:wait", url, own_name) as doomed:
            eventually(lambda: waits(line(own_name)))
            at = served(locks, own_name)
            eventually(lambda: addresses(shared_redis, own_name) == 2)
            listening = connections(shared_redis, listening=True)
            # When the first waiter is killed, and the server has seen its connection end
            doomed.kill()
        eventually(lambda: listening - connections(shared_redis, listening=True))  # noqa: B023
        released, begun = time.monotonic(), boottime()
        hold.release()
        late.append(at() - released - lag.since(begun))
    print(f"served after {[f'{one * 1e3:.1f} ms' for one in late]}")
    # The server can be late now and then, so the median counts. Each try is shorter than the
    # waiter TTL
    assert sorted(late)[2] <= 0.05
    assert max(late) <= PATIENCE_S / 2


def test_a_frozen_waiter_delays_the_next_by_its_waiter_ttl(
    locks: Client, redis_url: str, own_name: str, line: Look
) -> None:
    hold = locks.lock(own_name).acquire()
    with Subject(f"{__name__}:wait", redis_url, own_name) as frozen:
        eventually(lambda: waits(line(own_name)))
        at = served(locks, own_name)
        eventually(lambda: waits(line(own_name), 2))
        frozen.stop()
        released, begun = time.monotonic(), boottime()
        hold.release()
        assert at() - released - lag.since(begun) <= PATIENCE_S + LATE_S
        # And the frozen waiter gets the lock after it continues
        frozen.go_on()
        assert frozen.hear() > hold.fence
