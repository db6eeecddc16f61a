"""A server that restarts without its data, or with an older copy of the data."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.testing import lag
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import Proxy
from tests.ahead import Ahead
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.zookeeper.frames import ZOOKEEPER

#: In the copy, a session lives for this time too: a client must be back before it ends there.
SESSION_S = 4.0
#: Maximum seconds from the server's return: a client tries to connect at least once a second.
SOON_S = 3.0


@contextmanager
def _in_step(step: threading.Barrier, players: Ahead[Face, None]) -> Iterator[None]:
    """Break the barrier if the test fails, so that no player waits; raise a player's error."""
    try:
        yield
    except threading.BrokenBarrierError:
        step.abort()
        for face in FACES.values():
            with suppress(threading.BrokenBarrierError):
                players[face]
        raise
    finally:
        step.abort()


def _come_back(server: ZooKeeperServer, copy: Path | None) -> None:
    """Kill the server, lose its data, and restart it: empty, or with a copy.

    Another client writes to the copy, so that it has later transactions than the old clients have
    seen.
    """
    server.kill()
    shutil.rmtree(server.folder / "data")
    if copy is not None:
        shutil.copytree(copy, server.folder / "data")
    time.sleep(SESSION_S + 0.5)
    server.start()
    if copy is not None:
        with Client(server.url) as other:
            for _ in range(30):
                other.lock("another").acquire().release()


@pytest.mark.parametrize("way", ["wiped", "set back"])
def test_a_server_that_has_lost_data_takes_its_clients_again(
    way: str, new_zookeeper: Callable[..., ZooKeeperServer], own_name: str
) -> None:
    server = new_zookeeper()
    copy = server.folder / "copy"
    lag.watch()
    # Given clients on both faces, each in a separate thread, that proceed in step with the test
    step = threading.Barrier(1 + len(FACES), timeout=60)
    took: dict[str, float] = {}

    def play(face: Face) -> None:
        async def steps() -> None:
            name = f"{own_name}:{face.name}"
            client = face.client(f"zookeeper://127.0.0.1:{proxy.port}?session={SESSION_S}")
            # The clients hold a name and have a delivered job when the data is copied
            hold = await client.lock(name).acquire()
            await client.queue(name).put("job")
            job = await client.queue(name).take()
            await face.outside(step.wait)
            await face.outside(step.wait)
            # The clients end both after the copy
            await job.ack()
            await hold.release()
            await face.outside(step.wait)
            await face.outside(step.wait)
            # Then the server accepts them again
            back = time.monotonic()
            async with client.lock(name, timeout=20):
                took[name] = time.monotonic() - back - lag.since(back)
            await face.outside(step.wait)
            await client.close()

        face.run(steps, 120.0)

    with (
        Proxy(server.host, server.port, ZOOKEEPER) as proxy,
        Ahead(play, FACES.values(), len(FACES)) as players,
        _in_step(step, players),
    ):
        step.wait()
        shutil.copytree(server.folder / "data", copy)
        step.wait()
        step.wait()
        # When the server restarts with that copy, or without data
        proxy.refuse()
        _come_back(server, copy if way != "wiped" else None)
        proxy.heal()
        step.wait()
        step.wait()
        # And no hold or delivery that the clients have ended is kept alive by their sessions
        with Client(server.url) as fresh:
            assert fresh.inspect(own_name) == []
            for name in took if way != "wiped" else ():
                job = fresh.queue(name).take(timeout=SOON_S)
                assert job is not None, name
                job.ack()
        for face in FACES.values():
            players[face]
    assert max(took.values()) < SOON_S, took
