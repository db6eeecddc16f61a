"""A server that restarts with an older copy of its data; `tests/comeback` has one without data."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast import AsyncClient, Client
from holdfast.runtime.blocking import run_sync
from holdfast.testing import lag
from holdfast.testing.faces import Face
from holdfast.testing.faults import Proxy
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.zookeeper.frames import ZOOKEEPER

lag.watch()
#: In the copy, a session lives for this time too: a client must be back before it ends there.
SESSION_S = 4.0
#: Maximum seconds from the server's return: a client tries to connect at least once a second.
SOON_S = 3.0


def _come_back(server: ZooKeeperServer, copy: Path) -> None:
    """Kill the server, and restart it with a copy of its data.

    Another client writes to the copy, so that it has later transactions than the old clients have
    seen.
    """
    server.kill()
    shutil.rmtree(server.folder / "data")
    shutil.copytree(copy, server.folder / "data")
    time.sleep(SESSION_S + 0.5)
    server.start()
    with Client(server.url) as other:
        for _ in range(30):
            other.lock("another").acquire().release()


@contextmanager
def _running(face: Face) -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Run steps of this face; between two steps its event loop keeps running."""
    if face.name == "sync":
        yield run_sync
        return
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda step: asyncio.run_coroutine_threadsafe(step, loop).result(60)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_server_that_has_lost_data_takes_its_clients_again(
    face: Face, new_zookeeper: Callable[..., ZooKeeperServer], own_name: str
) -> None:
    server = new_zookeeper()
    copy = server.folder / "copy"
    held: list[Any] = []

    async def begin() -> AsyncClient:
        # Given a client that holds a name and has a delivered job when the data is copied
        client = face.client(f"zookeeper://127.0.0.1:{proxy.port}?session={SESSION_S}")
        held.append(await client.lock(own_name).acquire())
        await client.queue(own_name).put("job")
        held.append(await client.queue(own_name).take())
        return client

    async def end() -> None:
        await held[1].ack()
        await held[0].release()

    async def again() -> float:
        back = time.monotonic()
        async with client.lock(own_name, timeout=20):
            return time.monotonic() - back - lag.since(back)

    with Proxy(server.host, server.port, ZOOKEEPER) as proxy, _running(face) as run:
        client = run(begin())
        shutil.copytree(server.folder / "data", copy)
        # The client ends both after the copy
        run(end())
        # When the server restarts with that copy
        proxy.refuse()
        _come_back(server, copy)
        proxy.heal()
        # Then the server accepts the client again
        took = run(again())
        # And no hold or delivery that the client has ended is kept alive by its session
        with Client(server.url) as fresh:
            assert fresh.inspect(own_name) == []
            job = fresh.queue(own_name).take(timeout=SOON_S)
            assert job is not None
            job.ack()
        run(client.close())
    assert took < SOON_S
