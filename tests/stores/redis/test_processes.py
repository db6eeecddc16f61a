"""Waiters that die, forks, threads, and the end of a client."""

from __future__ import annotations

import gc
import os
import threading
import time
import warnings
from collections.abc import Callable

import pytest

from holdfast import Client, Loss
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Fork, Subject
from holdfast.testing.faults.stage import Stage
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer
from tests.servers.tls import Certificate
from tests.stores.redis.conftest import Look, MakeClient, addresses, connections, eventually, waits
from tests.torture.scale import times

PATIENCE_S = 3.0
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


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_child_uses_and_ends_none_of_its_parents_connections(
    tls: bool, new_redis: NewRedis, new_client: MakeClient, certificate: Certificate
) -> None:
    server = new_redis(tls=certificate if tls else None)
    ca = certificate.certificate
    locks = new_client(f"{server.tls_url}?ssl_ca_certs={ca}" if tls else server.url)
    for turn in range(times(100, 10)):
        # Given a parent that holds a lock, and its connections
        hold = locks.lock("x").acquire()
        before = connections(server)

        def inside(hold: object = hold, turn: int = turn) -> list[object]:
            lost, released = hold.lost, hold.release()  # type: ignore[attr-defined]
            with locks.lock(f"own {turn}", timeout=5) as own:
                own.check()
            busy = locks.lock("x").acquire(blocking=False) is None
            return [lost, released, busy]

        with Fork(inside) as child:
            assert child.result() == [Loss.FORKED, False, True]
        hold.check()
        assert hold.release()
        assert before <= connections(server)


def test_a_child_that_lives_on_doesnt_keep_its_dead_parents_place(
    shared_redis: RedisServer, own_name: str, locks: Client, line: Look
) -> None:
    """The child has closed its copies of the connections, so the server sees the parent's end."""
    # Given a parent that waits, and its child that stays alive
    hold = locks.lock(own_name).acquire()
    before = connections(shared_redis, listening=True)
    found: list[float] = []

    def parent() -> None:
        mine = Client(shared_redis.url)
        mine.lock(own_name + ":warm").acquire().release()
        threading.Thread(target=lambda: mine.lock(own_name).acquire(), daemon=True).start()
        eventually(lambda: waits(line(own_name)))
        # The claim is in the line before the client listens. A connection that is still being
        # opened during the fork would stay open in the child.
        eventually(lambda: connections(shared_redis, listening=True) - before)
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        os.write(ready, b"x")
        time.sleep(20)

    def behind() -> None:
        with locks.lock(own_name, timeout=20):
            found.append(time.monotonic())

    get, ready = os.pipe()
    with warnings.catch_warnings(action="ignore"), Fork(parent) as doomed:
        os.read(get, 1)
        listening = connections(shared_redis, listening=True)
        thread = threading.Thread(target=behind)
        thread.start()
        eventually(lambda: waits(line(own_name), 2))
        doomed.kill()
        eventually(lambda: listening - connections(shared_redis, listening=True))
        released = time.monotonic()
        hold.release()
        thread.join(20)
    os.close(get)
    os.close(ready)
    # Then the dead waiter's place doesn't cost its waiter TTL of 3 s
    assert found[0] - released < 2.0


def test_no_thread_is_started_before_a_hold_must_be_kept(locks: Client, own_name: str) -> None:
    before = threading.active_count()
    assert not locks.lock(own_name).locked()
    locks.inspect(own_name)
    locks.lock(own_name, auto_renew=False).acquire().release()
    # The number is smaller if the renewer of an earlier client has ended since.
    assert threading.active_count() <= before


@pytest.mark.parametrize("end", ["closed", "forgotten"])
def test_the_end_of_a_client_ends_its_connections(new_redis: NewRedis, end: str) -> None:
    server = new_redis()
    locks = Client(server.url)
    with locks.lock("x", auto_renew=False):
        pass
    assert connections(server)
    if end == "closed":
        locks.close()
    else:
        del locks
        gc.collect()
    eventually(lambda: connections(server) == set())
