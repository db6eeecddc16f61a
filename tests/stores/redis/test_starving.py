"""Waiting threads use few connections, and leave enough to the holder of the same client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client
from holdfast.runtime.blocking import boottime
from holdfast.stores.redis.blocking.connections import _Turn
from holdfast.testing import lag
from holdfast.testing.faces import Face
from tests.cli import world
from tests.servers.fixtures import NewRedis
from tests.stores.redis.conftest import eventually

lag.watch()

PROGRAM = Path(__file__).with_name("starving.py")
THREADS, TTL, SECONDS = 500, 6.0, 9.0
#: More threads than the connections that the server below accepts.
DIALECT_THREADS = 50
#: The maximum: one that listens, one in reserve, some used in turns, and two of this test.
CONNECTIONS_MAX = 40
#: Seconds after which each waiter has asked again, with its new address.
ASK_AGAIN_S = 1.5


def starved(url: str, protocol: int, threads: int, descriptors: int = 0) -> dict[str, int]:
    """Run the program with ``threads`` waiting threads; check that neither hold was lost."""
    words = (f"{url}?protocol={protocol}", threads, TTL, SECONDS, descriptors)
    run = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(world.ROOT / "src")},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    came: dict[str, int] = json.loads(run.stdout)
    assert came.get("lost", 0) == 0, came
    assert came["served"] == threads, came
    return came


@pytest.mark.usual(1)
@pytest.mark.parametrize("protocol", [3, 2])
@pytest.mark.parametrize("clients, descriptors", [(40, 0), (10_000, 200)])
def test_waiting_threads_never_cost_their_own_client_a_lock(
    clients: int, descriptors: int, protocol: int, new_redis: NewRedis
) -> None:
    # Given a server or a process with few connections, and many threads that wait
    url = new_redis(f"maxclients {clients}").url
    # Then all threads waited in the line
    assert starved(url, protocol, THREADS, descriptors)["waiting"] == THREADS


@pytest.mark.usual(1)
@pytest.mark.parametrize("protocol", [3, 2])
@pytest.mark.parametrize("dialect", ["plain", "timestamp", "redisson"])
def test_waiting_threads_of_a_dialect_never_cost_their_own_client_a_lock(
    dialect: str, protocol: int, new_redis: NewRedis
) -> None:
    # Given more waiting threads than the server has connections, each on a separate connection
    url = new_redis("maxclients 40").url.replace("redis://", f"redis+{dialect}://")
    starved(url, protocol, DIALECT_THREADS)


@pytest.mark.usual(1)
@pytest.mark.parametrize("protocol", [3, 2])
def test_a_thousand_waiting_threads_have_a_few_connections(
    protocol: int, new_redis: NewRedis
) -> None:
    server = new_redis()
    before = int(server.ask("INFO", "stats")["total_connections_received"])
    stack = threading.stack_size(256 * 1024)
    with Client(f"{server.url}?protocol={protocol}") as client:
        served: list[int] = []

        def work() -> None:
            with client.lock("x", timeout=120) as hold:
                served.append(hold.fence)

        with client.lock("x", ttl=60):
            crowd = [threading.Thread(target=work) for _ in range(1000)]
            # When the server is silent while all threads ask
            server.stop()
            for one in crowd:
                one.start()
            time.sleep(0.5)
            server.go_on()
            eventually(lambda: len(client.inspect("x")[0].waiters) == 1000, 60)
            made = int(server.ask("INFO", "stats")["total_connections_received"])
            assert made - before <= CONNECTIONS_MAX
        for one in crowd:
            one.join(120)
        threading.stack_size(stack)
        # And all were granted in order, though one connection received all wake-ups
        assert len(served) == 1000
        assert served == sorted(served)


def port_of(client: Any) -> Any:
    return client._ctx.store._port


def ear_of(client: Any) -> Any:
    """Return the connection on which this client receives its wake-ups; None if there is none."""
    ear = port_of(client)._ear
    return getattr(ear, "link", ear)


@pytest.mark.usual(2)
@pytest.mark.parametrize("protocol", [3, 2])
def test_all_waiters_are_woken_again_after_their_listener_died(
    protocol: int, face: Face, new_redis: NewRedis
) -> None:
    # Given twenty threads or tasks, each of which waits for another lock
    server = new_redis()
    url, names = f"{server.url}?protocol={protocol}", [f"x{at}" for at in range(20)]
    took: list[float] = []

    async def main() -> None:
        holds = [holder.lock(name).acquire() for name in names]
        async with face.client(url) as client:

            async def work(name: str) -> float:
                async with client.lock(name, timeout=60):
                    return boottime()

            waiters = [face.start(partial(work, name)) for name in names]
            await face.outside(lambda: eventually(lambda: all_wait() and ear_of(client)))
            # When the listening connection dies, and a new one listens
            ear = ear_of(client)
            server.ask("CLIENT", "KILL", "TYPE", "pubsub")
            address = port_of(client)._address
            await face.outside(lambda: eventually(lambda: ear_of(client) not in (None, ear), 30))
            await face.sleep(ASK_AGAIN_S)
            assert server.ask("PUBSUB", "NUMSUB", address)[1] == 1
            # Then each is woken when its turn comes
            for hold, waiter in zip(holds, waiters, strict=True):
                begun = boottime()
                hold.release()
                took.append(await waiter.result(60) - begun - lag.since(begun))

    def all_wait() -> bool:
        return [len(line.waiters) for line in holder.inspect("x")] == [1] * len(names)

    with Client(url) as holder:
        face.run(main, 120)
    # (some of the wake-ups can be late on a busy machine)
    assert sorted(took)[len(names) // 2] < 0.5


@pytest.mark.usual(2)
@pytest.mark.parametrize("protocol", [3, 2])
def test_a_client_without_the_right_to_subscribe_polls_and_warns(
    protocol: int,
    face: Face,
    new_redis: NewRedis,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A right that is granted later takes effect without a new client."""
    for runtime in ("blocking", "aio"):
        monkeypatch.setattr(f"holdfast.stores.redis.{runtime}.port.DEAF_S", 0.5)
    server = new_redis(users=("user app on >secret ~* resetchannels +@all",))

    async def main() -> None:
        hold = holder.lock("x").acquire()
        url = f"{server.url_for('app', 'secret')}?protocol={protocol}"
        async with face.client(url) as client:

            async def work() -> None:
                async with client.lock("x", timeout=60):
                    pass

            waiter = face.start(work)
            await face.outside(
                lambda: eventually(lambda: "refused the subscription" in caplog.text)
            )
            assert ear_of(client) is None
            server.ask("ACL", "SETUSER", "app", "&holdfast:*")
            await face.outside(lambda: eventually(lambda: ear_of(client) is not None, 30))
            hold.release()
            await waiter.result(30)

    with Client(server.url) as holder:
        face.run(main, 120)


def test_no_connection_is_handed_to_a_thread_that_has_left(redis_url: str, own_name: str) -> None:
    with Client(redis_url) as client:
        client.lock(own_name).acquire().release()
        port = client._ctx.store._port
        (link,) = port._pool
        # Given a turn that was queued after its thread had left
        ghost = _Turn(urgent=False)
        ghost.gone = True
        port._queue.append(ghost)
        port._short = True
        for _ in range(3):
            client.lock(own_name).acquire().release()
        assert list(port._pool) == [link]
        assert ghost.link is None
