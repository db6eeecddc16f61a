"""Requests that wait at the server delay no renewal, and leave no session at the close."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from holdfast import AsyncClient, Client, HoldfastError
from tests.servers.process import until
from tests.stores.postgres.conftest import Bench, NewServer, acknowledged
from tests.stores.stalled import (
    POOL,
    test_a_release_finds_a_connection_while_others_wait_for_a_row,
)

__all__ = ["test_a_release_finds_a_connection_while_others_wait_for_a_row"]


def test_a_client_that_closes_with_a_request_under_way_leaves_no_session(
    bench: Bench, new_server: NewServer, own_name: str
) -> None:
    server = new_server()
    with Client(server.url) as client:
        client.lock(own_name).acquire().release()
    waiting = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND wait_event = %s"

    async def main() -> None:
        client = AsyncClient(bench.labelled(server, own_name, POOL))
        async with client.lock(f"{own_name}:first"):
            pass
        acknowledged(server, False)
        # Given a request that waits for a standby which doesn't exist
        asked = asyncio.create_task(client.lock(own_name).acquire(timeout=30))
        async with asyncio.timeout(20):
            while not await asyncio.to_thread(server.ask, waiting, own_name, "SyncRep"):
                await asyncio.sleep(0.01)
        # When its connection is closed
        port: Any = client._ctx.store._port  # type: ignore[attr-defined]
        for wire in list(port._wires):
            wire.close()
        with contextlib.suppress(HoldfastError):
            await client.close()
        asked.cancel()
        await asyncio.wait([asked])

    try:
        asyncio.run(main())
        # Then the client has cancelled the waiting request at the server
        until(lambda: not bench.sessions(server, own_name), "no session is left")
    finally:
        acknowledged(server, True)
