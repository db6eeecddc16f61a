"""A server that comes back without its data, or with an older copy of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable

import pytest

from holdfast import Client
from holdfast.testing import lag
from holdfast.testing.faces import FACES
from tests.servers.zookeeper import ZooKeeperServer

#: It lives on for as long in the copy: a client must be back before it ends there.
SESSION_S = 4.0
#: From the server's return: a client looks for it once a second at least.
SOON_S = 3.0


@pytest.mark.parametrize("kept", [False], ids=["wiped"])
def test_a_server_that_has_lost_data_takes_its_clients_again(
    kept: bool, new_zookeeper: Callable[..., ZooKeeperServer], own_name: str
) -> None:
    server = new_zookeeper()
    data, copy = server.folder / "data", server.folder / "copy"
    url = f"{server.url}?session={SESSION_S}"
    lag.watch()

    async def play() -> None:
        clients = [face.client(url) for face in FACES.values()]
        # Given a copy of the data, in which their sessions hold names
        holds = [await one.lock(f"{own_name}:{at}").acquire() for at, one in enumerate(clients)]
        shutil.copytree(data, copy)
        # And clients that have released them since
        for hold in holds:
            await hold.release()
        # When the server comes back with that copy, or with nothing
        server.kill()
        shutil.rmtree(data)
        if kept:
            shutil.copytree(copy, data)
        time.sleep(SESSION_S + 0.5)
        server.start()
        # Then it takes them, and nothing that they have released is held
        back = time.monotonic()
        for at, one in enumerate(clients):
            async with one.lock(f"{own_name}:{at}", timeout=20):
                pass
        assert time.monotonic() - back < SOON_S + lag.since(back)
        with Client(url) as fresh:
            assert fresh.inspect(own_name) == []
        for one in clients:
            await one.close()

    FACES["aio"].run(play, 60.0)
