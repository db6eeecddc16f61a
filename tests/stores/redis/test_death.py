"""A client that dies or freezes delays the others by its lease, and by no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from holdfast import Client
from holdfast.core.model import LineRecord
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.keys import PREFIX, keys_of
from holdfast.testing import lag
from holdfast.testing.faults import Subject
from tests.servers.redis_server import RedisServer
from tests.stores.redis.conftest import connections, eventually

Look = Callable[[str], LineRecord | None]
TTL_S = 3.0
PATIENCE_S = 3.0
#: A server or another process can be late by this much, and the test can't measure that.
LATE_S = 2.0
#: The lag of the machine itself is measured and subtracted.
lag.watch()


def waiters(found: LineRecord | None) -> int:
    return len(found.waiters) if found else 0


def addresses(server: RedisServer, name: str) -> int:
    """Return the number of waiters that have an address for wake-ups."""
    rows = server.ask("HVALS", keys_of(PREFIX, name.encode())[1])
    return sum(b":poke:" in row for row in rows)


def served(locks: Client, name: str) -> tuple[threading.Thread, list[float]]:
    """Start a thread that waits for the lock, records when it holds, and releases."""
    at: list[float] = []

    def work() -> None:
        with locks.lock(name, timeout=30):
            at.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    return thread, at


def test_the_next_waiter_holds_when_a_killed_holders_lease_expires(
    locks: Client, redis_url: str, own_name: str, line: Look
) -> None:
    # Given
    with Subject("tests.stores.redis.workers:hold", redis_url, own_name, TTL_S) as holder:
        first = holder.hear()
        thread, at = served(locks, own_name)
        eventually(lambda: waiters(line(own_name)) == 1)
        # When
        holder.kill()
        killed, begun = time.monotonic(), boottime()
        thread.join(20)
    # Then
    assert at[0] - killed - lag.since(begun) <= TTL_S + LATE_S
    assert first > 0


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
        with Subject("tests.stores.redis.workers:wait", url, own_name) as doomed:
            eventually(lambda: waiters(line(own_name)) == 1)
            thread, at = served(locks, own_name)
            eventually(lambda: addresses(shared_redis, own_name) == 2)
            listening = connections(shared_redis, listening=True)
            # When the first waiter is killed, and the server has seen its connection end
            doomed.kill()
        eventually(lambda: listening - connections(shared_redis, listening=True))  # noqa: B023
        released, begun = time.monotonic(), boottime()
        hold.release()
        thread.join(20)
        # Then
        late.append(at[0] - released - lag.since(begun))
    print(f"served after {[f'{one * 1e3:.1f} ms' for one in late]}")
    # The server can be late now and then, so the median counts. Each try is shorter than the
    # waiter TTL
    assert sorted(late)[2] <= 0.05
    assert max(late) <= PATIENCE_S / 2


def test_a_frozen_waiter_delays_the_next_by_its_waiter_ttl(
    locks: Client, redis_url: str, own_name: str, line: Look
) -> None:
    # Given
    hold = locks.lock(own_name).acquire()
    with Subject("tests.stores.redis.workers:wait", redis_url, own_name) as frozen:
        eventually(lambda: waiters(line(own_name)) == 1)
        thread, at = served(locks, own_name)
        eventually(lambda: waiters(line(own_name)) == 2)
        # When
        frozen.stop()
        released, begun = time.monotonic(), boottime()
        hold.release()
        thread.join(20)
        # Then
        assert at[0] - released - lag.since(begun) <= PATIENCE_S + LATE_S
        # And the frozen waiter gets the lock after it continues
        frozen.go_on()
        fence, _ = frozen.hear()
        assert fence > hold.fence


def test_live_waiters_whose_connections_are_killed_keep_their_places(
    locks: Client, shared_redis: RedisServer, own_name: str, line: Look
) -> None:
    # Given a holder and 50 waiters
    hold = locks.lock(own_name).acquire()
    crowd, fences = 50, []

    def work() -> None:
        with locks.lock(own_name, timeout=60) as mine:
            fences.append(mine.fence)

    threads = [threading.Thread(target=work) for _ in range(crowd)]
    for number, thread in enumerate(threads, 1):
        thread.start()
        eventually(lambda: waiters(line(own_name)) == number)  # noqa: B023
    before = [one.fence for one in line(own_name).waiters]  # type: ignore[union-attr]
    listening = connections(shared_redis, listening=True)
    # When the listening connection is killed, and the client has connected again
    killed = shared_redis.ask("CLIENT", "KILL", "TYPE", "pubsub")
    assert killed == 1  # it listens for all of them
    eventually(lambda: connections(shared_redis, listening=True) - listening)
    hold.release()
    for thread in threads:
        thread.join(60)
    # Then
    assert fences == before
    assert line(own_name) is None
