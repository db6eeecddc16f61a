"""A limit of the client also limits the server: a locked row uses at most `pool` sessions."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.stores.mysql.blocking import lost
from holdfast.stores.mysql.blocking.lost import Graveyard
from holdfast.testing.faces import FACES, Face
from tests.servers.mariadb_server import DATABASE, MariadbServer
from tests.servers.process import until
from tests.stores import stalled

POOL = 4


def others(server: MariadbServer) -> int:
    """The number of sessions of the tests' user; a test's own statements run as root."""
    ((many,),) = server.ask(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app' AND db = 'holdfast'"
    )
    return int(many)


@pytest.mark.parametrize("face", stalled.FACES)
def test_a_stalled_row_takes_up_no_more_than_the_pool(
    new_mariadb: object, own_name: str, face: str
) -> None:
    server: MariadbServer = new_mariadb()  # type: ignore[operator]
    with Client(server.url) as client:
        client.lock(own_name).acquire().release()
    until(lambda: others(server) == 0, "all sessions have ended")
    url = f"{server.url}?pool={POOL}"
    with server.root() as other, other.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        # Given a session that has locked the row of the name
        cursor.execute(
            f"SELECT name FROM {DATABASE}.holdfast_lines WHERE name = %s FOR UPDATE",
            (own_name.encode(),),
        )
        # When many threads or tasks try to get it, again and again
        most = stalled.FACES[face](url, own_name, lambda: others(server))
        cursor.execute("ROLLBACK")
    assert 1 <= most <= POOL + 2
    # Then it works when the row is free
    with Client(url) as client, client.lock(own_name, timeout=20):
        pass
    until(lambda: others(server) == 0, "all sessions have ended")


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_release_finds_a_connection_while_others_wait_for_a_row(
    new_mariadb: object, own_name: str, face: Face
) -> None:
    server: MariadbServer = new_mariadb()  # type: ignore[operator]
    with server.root() as other, other.cursor() as cursor:
        text = f"SELECT name FROM {DATABASE}.holdfast_lines WHERE name = %s FOR UPDATE"

        def stall() -> None:
            cursor.execute("START TRANSACTION")
            cursor.execute(text, (own_name.encode(),))

        stalled.a_release_is_prompt(
            face,
            f"{server.url}?pool={POOL}",
            own_name,
            stall,
            lambda: cursor.execute("ROLLBACK"),
        )


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_what_a_locked_table_holds_up_is_ended_and_no_session_of_a_stranger(
    new_mariadb: object, own_name: str, face: Face
) -> None:
    server: MariadbServer = new_mariadb()  # type: ignore[operator]
    look = "SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'"
    stranger = server.connect()
    number = stranger.thread_id()

    async def main() -> None:
        client = face.client(f"{server.url}?pool=2")
        async with client:
            await (await client.lock(own_name).acquire()).release()
            with server.root() as other, other.cursor() as cursor:
                # Given a table that another session has locked, and a request that was given up
                # there
                cursor.execute(f"LOCK TABLES {DATABASE}.holdfast_lines WRITE")
                with pytest.raises(StoreUnavailable):
                    await client.lock(own_name).acquire(timeout=0)
                stuck = set(server.ask(look))
                assert stuck
                # When the client's list of given-up sessions also has the number of another user's
                # session
                lost = client._ctx.store._port._lost
                here, there = socket.socketpair()
                lost.append(lost[0].__class__(here, number, lambda one: (one.end(), there.close())))
                end = time.monotonic() + 20
                while stuck & set(server.ask(look)) and time.monotonic() < end:
                    with contextlib.suppress(StoreUnavailable):
                        await client.lock(own_name).acquire(timeout=0)
                    await face.sleep(0.1)
                # Then the given-up session is ended
                assert not stuck & set(server.ask(look))
        # And the other user's session lives
        with stranger.cursor() as cursor:
            cursor.execute("SELECT 1")

    face.run(main, 60)
    stranger.close()


def test_many_threads_end_what_a_locked_table_holds_up_by_one_session_more(
    new_mariadb: object, own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: MariadbServer = new_mariadb()  # type: ignore[operator]
    # Given threads that end a session soon after it was given up, so that many of them try it
    monkeypatch.setattr(lost, "PATIENT_S", 0.2)
    with Client(server.url) as client:
        client.lock(own_name).acquire().release()
    until(lambda: others(server) == 0, "all sessions have ended")
    with server.root() as other, other.cursor() as cursor:
        # And a table that another session has locked
        cursor.execute(f"LOCK TABLES {DATABASE}.holdfast_lines WRITE")
        server.ask("FLUSH STATUS")
        # When many threads try to get a name there, again and again
        stalled.by_threads(f"{server.url}?pool={POOL}", own_name, lambda: others(server))
        # Then there were never more sessions, apart from those of this test
        most = server.counts("Max_used_connections")["Max_used_connections"] - 2
        cursor.execute("UNLOCK TABLES")
    # The server counts a session for a moment longer than its connection is open
    assert POOL <= most <= POOL + 3


def test_to_look_for_sessions_that_others_have_ended_meanwhile_is_no_error(
    new_mariadb: object,
) -> None:
    server: MariadbServer = new_mariadb()  # type: ignore[operator]
    assert list(server.ask(Graveyard().look("holdfast"))) == []
