"""Requests that wait at the server delay no renewal, and leave no session at the close."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from holdfast import AsyncClient, Client, HoldfastError
from holdfast.testing.faces import FACES, Face
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.stores.stalled import a_release_is_prompt

POOL = 4


def sessions(server: PostgresServer, label: str) -> int:
    """The number of sessions whose application name is ``label``."""
    ((many,),) = server.ask(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", label
    )
    return int(many)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_release_finds_a_connection_while_others_wait_for_a_row(
    shared_postgres: PostgresServer, own_name: str, face: Face
) -> None:
    url = shared_postgres.url_for(options=f"pool={POOL}")
    with shared_postgres.connect() as other:
        text = "SELECT FROM holdfast.lines WHERE name = %s FOR UPDATE"
        other.autocommit = False
        a_release_is_prompt(
            face, url, own_name, lambda: other.execute(text, (own_name.encode(),)), other.rollback
        )


def test_a_client_that_closes_with_a_request_under_way_leaves_no_session(
    new_postgres: object, own_name: str
) -> None:
    server: PostgresServer = new_postgres()  # type: ignore[operator]
    with Client(server.url) as client:
        client.lock(own_name).acquire().release()
    url = server.url_for(options=f"pool={POOL}&application_name={own_name}")

    def waits() -> int:
        ((many,),) = server.ask(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = %s AND wait_event = 'SyncRep'",
            own_name,
        )
        return int(many)

    async def main() -> None:
        client = AsyncClient(url)
        async with client.lock(f"{own_name}:first"):
            pass
        server.ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        server.ask("SELECT pg_reload_conf()")
        # Given a request that waits for a standby which doesn't exist
        asked = asyncio.create_task(client.lock(own_name).acquire(timeout=30))
        async with asyncio.timeout(20):
            while not await asyncio.to_thread(waits):
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
        until(lambda: not sessions(server, own_name), "no session is left")
    finally:
        server.ask("ALTER SYSTEM RESET synchronous_standby_names")
        server.ask("SELECT pg_reload_conf()")
