"""A limit of the client also limits the server: see ``tests/stores/stalled.py``; locked tables."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.stores.mysql.blocking import lost
from holdfast.stores.mysql.blocking.lost import Graveyard
from holdfast.testing.faces import FACES, Face
from tests.servers.mariadb_server import DATABASE, MariadbServer
from tests.servers.process import until
from tests.stores.mysql.conftest import Bench
from tests.stores.stalled import *  # noqa: F403
from tests.stores.stalled import POOL, most_sessions


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_what_a_locked_table_holds_up_is_ended_and_no_session_of_a_stranger(
    alone: MariadbServer, own_name: str, face: Face
) -> None:
    look = "SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'"
    stranger = alone.connect()
    number = stranger.thread_id()

    async def main() -> None:
        client = face.client(f"{alone.url}?pool=2")
        async with client:
            await (await client.lock(own_name).acquire()).release()
            with alone.root() as other, other.cursor() as cursor:
                # Given a table that another session has locked, and a request that was given up
                # there
                cursor.execute(f"LOCK TABLES {DATABASE}.holdfast_lines WRITE")
                with pytest.raises(StoreUnavailable):
                    await client.lock(own_name).acquire(timeout=0)
                stuck = set(alone.ask(look))
                assert stuck
                # When the client's list of given-up sessions also has the number of another user's
                # session
                buried: Any = client._ctx.store._port._lost  # type: ignore[attr-defined]
                here, there = socket.socketpair()
                buried.append(
                    buried[0].__class__(here, number, lambda one: (one.end(), there.close()))
                )
                end = time.monotonic() + 20
                while stuck & set(alone.ask(look)) and time.monotonic() < end:
                    with contextlib.suppress(StoreUnavailable):
                        await client.lock(own_name).acquire(timeout=0)
                    await face.sleep(0.1)
                # Then the given-up session is ended
                assert not stuck & set(alone.ask(look))
        # And the other user's session lives
        with stranger.cursor() as cursor:
            cursor.execute("SELECT 1")

    face.run(main, 60)
    stranger.close()


def test_many_threads_end_what_a_locked_table_holds_up_by_one_session_more(
    bench: Bench, alone: MariadbServer, own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given threads that end a session soon after it was given up, so that many of them try it
    monkeypatch.setattr(lost, "PATIENT_S", 0.2)
    with Client(alone.url) as client:
        client.lock(own_name).acquire().release()
    until(lambda: bench.sessions(alone, own_name) == 0, "all sessions have ended")
    with alone.root() as other, other.cursor() as cursor:
        # And a table that another session has locked
        cursor.execute(f"LOCK TABLES {DATABASE}.holdfast_lines WRITE")
        alone.ask("FLUSH STATUS")
        # When many threads try to get a name there, again and again
        url = bench.labelled(alone, own_name, POOL)
        most_sessions(FACES["sync"], url, own_name, lambda: bench.sessions(alone, own_name))
        # Then there were never more sessions, apart from those of this test
        most = alone.counts("Max_used_connections")["Max_used_connections"] - 2
        cursor.execute("UNLOCK TABLES")
    # The server counts a session for a moment longer than its connection is open
    assert POOL <= most <= POOL + 3


def test_to_look_for_sessions_that_others_have_ended_meanwhile_is_no_error(
    alone: MariadbServer,
) -> None:
    assert list(alone.ask(Graveyard().look("holdfast"))) == []
