"""Waiting threads use few connections, and leave enough to the holder of the same client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.stores.redis.blocking.connections import _Turn
from holdfast.testing import lag
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


def starved(url: str, protocol: int, threads: int, descriptors: int = 0) -> dict[str, int]:
    """Run the program with so many waiting threads; check that neither hold was lost."""
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


@pytest.mark.parametrize("protocol", [3, 2])
def test_all_waiters_are_woken_again_after_their_listener_died(
    protocol: int, new_redis: NewRedis
) -> None:
    # Given twenty threads, each of which waits for another lock
    server = new_redis()
    url = f"{server.url}?protocol={protocol}"
    with Client(url) as holder, Client(url) as client:
        holds = [holder.lock(f"x{at}").acquire() for at in range(20)]
        served: dict[int, float] = {}

        def work(at: int) -> None:
            with client.lock(f"x{at}", timeout=60):
                served[at] = time.monotonic()

        crowd = [threading.Thread(target=work, args=(at,)) for at in range(20)]
        for one in crowd:
            one.start()
        port = client._ctx.store._port  # type: ignore[attr-defined]
        eventually(lambda: len(port._ear.boxes) == 20 and port._ear.link is not None)
        # When the listening connection dies, and a new one listens
        link = port._ear.link
        server.ask("CLIENT", "KILL", "TYPE", "pubsub")
        eventually(lambda: port._ear.link not in (None, link), 30)
        eventually(lambda: server.ask("PUBSUB", "NUMSUB", port._address)[1] == 1, 30)
        # Then each thread is granted when its turn comes
        for hold in holds:
            hold.release()
        for one in crowd:
            one.join(60)
        assert len(served) == 20


def test_a_client_without_the_right_to_subscribe_polls_and_warns(
    new_redis: NewRedis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right that is granted later takes effect without a new client."""
    monkeypatch.setattr("holdfast.stores.redis.blocking.port.DEAF_S", 0.5)
    server = new_redis(users=("user app on >secret ~* resetchannels +@all",))
    with Client(server.url) as holder, Client(server.url_for("app", "secret")) as client:
        hold = holder.lock("x").acquire()
        served: list[float] = []

        def work() -> None:
            with client.lock("x", timeout=60):
                served.append(time.monotonic())

        thread = threading.Thread(target=work)
        thread.start()
        eventually(lambda: "refused the subscription" in caplog.text)
        port = client._ctx.store._port  # type: ignore[attr-defined]
        assert port._ear.link is None
        server.ask("ACL", "SETUSER", "app", "&holdfast:*")
        eventually(lambda: port._ear.link is not None, 30)
        hold.release()
        thread.join(30)
        assert served


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
        # When connections are returned
        for _ in range(3):
            client.lock(own_name).acquire().release()
        # Then the only connection is used again
        assert list(port._pool) == [link]
        assert ghost.link is None
