"""Waiting on a plain key: any client that frees it wakes the waiter, soon and at little cost."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from typing import Any

import pytest
import redis

from holdfast import Client
from holdfast.core.model import Claim, Gone, Held, Kind, Leave, Renewal, Spec, Waiting
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.testing import lag
from holdfast.testing.faces import FACES
from holdfast.testing.faults import DROP_PUSH, Proxy
from tests.dialects.conftest import Behind, Ours
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import RedisServer, old_program
from tests.torture.scale import figures, times

lag.watch()
ROUNDS = times(300, 20)
#: Maximum median of the seconds from another client's release until holdfast holds.
WOKEN_S = 0.015
#: The cost test observes a waiter for ``WATCHED_S`` seconds, after ``BEFORE_S`` without counting.
WATCHED_S, BEFORE_S = 3.0, 0.5


@pytest.mark.usual(3)
@pytest.mark.parametrize("face, oldest", [("sync", False), ("aio", False), ("sync", True)])
def test_a_waiter_is_woken_by_the_release_of_another_client(
    face: str, oldest: bool, shared_redis: RedisServer, new_redis: NewRedis, prefix: str
) -> None:
    server = new_redis(server=old_program()) if oldest else shared_redis
    at, took = FACES[face], []

    async def main() -> None:
        locks = at.client(f"redis+plain://127.0.0.1:{server.port}/0?prefix={prefix}")

        async def wait() -> float:
            async with locks.lock("x", timeout=20):
                return time.perf_counter()

        for _ in range(ROUNDS):
            theirs = raw.lock(prefix + "x", timeout=30)
            assert theirs.acquire(blocking=False)
            waiter = at.start(wait)
            await at.sleep(0.05)  # so that it waits; if it doesn't yet, it only looks better
            begun = time.perf_counter()
            theirs.release()
            took.append(await waiter.result() - begun)
        await locks.close()

    begun = boottime()
    with server.client() as raw:
        at.run(main, 60)
    print(figures("woken", took))
    assert statistics.median(took) < WOKEN_S + lag.since(begun) / ROUNDS


@pytest.mark.parametrize("protocol", [3, 2])
def test_a_waiter_sends_few_commands(protocol: int, new_redis: NewRedis) -> None:
    server = new_redis()
    url = f"redis+plain://127.0.0.1:{server.port}/0?protocol={protocol}"
    with Client(url) as holder, Client(url) as waiting:
        with holder.lock("x"):
            served = threading.Thread(target=lambda: waiting.lock("x").acquire().release())
            served.start()
            time.sleep(BEFORE_S)
            before, begun = server.calls(), boottime()
            time.sleep(WATCHED_S)
            after, took = server.calls(), boottime() - begun
        served.join(20)
    sent = {name: calls - before.get(name, 0) for name, calls in after.items()}
    sent = {name: calls for name, calls in sent.items() if calls and "info" not in name}
    print(sent)
    # Commands inside scripts count too; without notifications the first pauses are short.
    assert sum(sent.values()) <= 2 * took + (2 if protocol == 2 else 0)


@pytest.mark.parametrize("protocol", ["3", "2"])
def test_a_holder_that_dies_or_has_no_end_is_waited_for(
    protocol: str, ours: Ours, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    locks = ours(protocol=protocol)
    raw.set(prefix + own_name, "dead", px=700)
    begun = boottime()
    with locks.lock(own_name, timeout=20):
        assert boottime() - begun < 0.7 + 0.65 + lag.since(begun)
    theirs = raw.lock(prefix + own_name, thread_local=False)  # as redis-py does by default
    assert theirs.acquire(blocking=False)
    assert locks.lock(own_name).acquire(timeout=0.3) is None
    given: list[float] = []

    def give() -> None:
        given.append(boottime())
        # redis-py repeats a request whose reply was lost, and then its token is no longer there
        with contextlib.suppress(redis.exceptions.LockNotOwnedError):
            theirs.release()

    begun = boottime()
    threading.Timer(0.4, give).start()
    with locks.lock(own_name, timeout=20):
        assert given, "it was granted before the release"
        assert boottime() - begun < 0.4 + 5.0 + lag.since(begun)


def test_a_message_that_is_lost_costs_no_more_than_the_next_try(
    ours: Ours, proxy: Proxy, raw: redis.Redis, prefix: str, own_name: str
) -> None:
    raw.set(prefix + own_name, "theirs", px=30_000)
    lost = proxy.arm(b"invalidate", DROP_PUSH)
    threading.Timer(0.3, raw.delete, (prefix + own_name,)).start()
    begun = boottime()
    with ours("plain", proxy.port).lock(own_name, timeout=20):
        assert boottime() - begun < 0.3 + 5.0 + lag.since(begun)
    assert lost.hits == 1


@pytest.mark.parametrize("dialect", ["plain", "timestamp"])
def test_only_a_turn_takes_the_key_for_a_waiter(dialect: str, at: Behind) -> None:
    # Given a waiter, and a key that was freed after its last try
    store: Any = at.ours(dialect)._ctx.store
    claim = Claim("0a" * 16, Spec(at.name, Kind.LOCK, 1, 1, 20.0, "ours"))
    with at.ours(dialect).lock(at.name, ttl=30):
        waiting = run_sync(store.join(claim, True, 5.0))
        assert isinstance(waiting, Waiting)
    # Then a renewal takes nothing
    (answer,) = run_sync(store.renew([Renewal(claim, waiting.ticket, 20.0)], 5.0))
    assert isinstance(answer, Gone)
    assert not at.raw.exists(at.key)
    # And another client that has the id, and never joined, may take the key
    other: Any = at.ours(dialect)._ctx.store
    held = run_sync(other.turn(claim, waiting.ticket, 5.0))
    assert isinstance(held, Held)
    # And the first client gets the same answer, if the value of the key shows its claim
    store._waits[claim.id].slept(0.0, True)  # it was notified
    again = run_sync(store.turn(claim, waiting.ticket, 5.0))
    assert isinstance(again, Held if dialect == "plain" else Waiting)
    assert run_sync(other.leave(Leave(at.name, claim.id, held.fence), 5.0)) is True
    assert not at.raw.exists(at.key)
