"""A limit of the client also limits the server: a locked row uses at most `pool` sessions."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.stores.postgres.conftest import MakeClient
from tests.stores.stalled import FACES

POOL = 4


def sessions(server: PostgresServer, label: str) -> int:
    ((many,),) = server.ask(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", label
    )
    return int(many)


@pytest.mark.usual(1)
@pytest.mark.parametrize("face", FACES)
def test_a_stalled_row_takes_up_no_more_than_the_pool(
    shared_postgres: PostgresServer, postgres_url: str, own_name: str, face: str
) -> None:
    with Client(postgres_url) as client:
        client.lock(own_name).acquire().release()
    url = shared_postgres.url_for(options=f"pool={POOL}&application_name={own_name}")
    with shared_postgres.connect() as other, other.transaction(force_rollback=True):
        # Given a session that has locked the row of the name
        other.execute("SELECT FROM holdfast.lines WHERE name = %s FOR UPDATE", (own_name.encode(),))
        # When many threads or tasks try to get it, again and again
        most = FACES[face](url, own_name, lambda: sessions(shared_postgres, own_name))
    assert 1 <= most <= POOL + 2
    # Then it works when the row is free
    with Client(url) as client, client.lock(own_name, timeout=20):
        pass
    until(lambda: not sessions(shared_postgres, own_name), "all sessions have ended")


@pytest.mark.usual(0)
@pytest.mark.parametrize("face", FACES)
def test_a_standby_that_never_acknowledges_takes_up_no_more_than_the_pool(
    new_postgres: object, own_name: str, face: str
) -> None:
    server: PostgresServer = new_postgres()  # type: ignore[operator]
    with Client(server.url) as client:
        client.lock(own_name).acquire().release()
    server.ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    server.ask("SELECT pg_reload_conf()")
    url = server.url_for(options=f"pool={POOL}&application_name={own_name}")
    try:
        most = FACES[face](url, own_name, lambda: sessions(server, own_name))
        # The client has cancelled each given-up request at the server
        until(lambda: not sessions(server, own_name), "no session waits for the standby")
    finally:
        server.ask("ALTER SYSTEM RESET synchronous_standby_names")
        server.ask("SELECT pg_reload_conf()")
    assert 1 <= most <= POOL + 2
    with Client(url) as client, client.lock(own_name, timeout=40):
        pass


def try_and_close(url: str, name: str, between: Callable[[], None], face: str) -> None:
    """Connect; then try to get a name without a reply, and close the client."""
    if face == "sync":
        with Client(url) as client:
            client.lock(name).acquire().release()
            between()
            with pytest.raises(StoreUnavailable):
                client.lock(name).acquire(timeout=0)
        return

    async def main() -> None:
        async with AsyncClient(url) as client:
            async with client.lock(name):
                pass
            between()
            with pytest.raises(StoreUnavailable):
                await client.lock(name).acquire(timeout=0)

    asyncio.run(main())


@pytest.mark.usual(1)
@pytest.mark.parametrize("face", FACES)
def test_a_cancellation_that_overtakes_its_request_is_sent_again(
    new_postgres: object, own_name: str, face: str
) -> None:
    server: PostgresServer = new_postgres()  # type: ignore[operator]
    stopped: list[int] = []

    def commit() -> None:
        with contextlib.suppress(psycopg.Error), server.connect() as one:  # until the server ends
            one.execute("SELECT pg_logical_emit_message(true, 'holdfast', 'one')")

    writer = threading.Thread(target=commit)

    def someone_waits() -> bool:
        return bool(server.ask("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))

    def stop() -> None:
        server.ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        server.ask("SELECT pg_reload_conf()")
        writer.start()
        until(someone_waits, "who commits waits for a standby")
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
        for (pid,) in server.ask(query, own_name):
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)

    # Given a session that does not read its request before that is cancelled
    url = server.url_for(options=f"application_name={own_name}")
    try:
        try_and_close(url, own_name, stop, face)
        time.sleep(0.3)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    # Then it does not wait for the standby without a time limit
    assert stopped
    until(lambda: not sessions(server, own_name), "no session waits for the standby")
    server.kill()
    writer.join()


def test_a_release_finds_a_connection_while_others_wait_for_a_row(
    shared_postgres: PostgresServer, new_client: MakeClient, postgres_url: str, own_name: str
) -> None:
    client = new_client(shared_postgres.url_for(options=f"pool={POOL}"))
    held = client.lock(f"{own_name}:held", ttl=6).acquire()
    client.lock(own_name).acquire().release()
    stop = threading.Event()

    def want() -> None:
        while not stop.is_set():
            try:
                client.lock(own_name).acquire(timeout=0)
            except StoreUnavailable:
                continue

    with shared_postgres.connect() as other, other.transaction(force_rollback=True):
        other.execute("SELECT FROM holdfast.lines WHERE name = %s FOR UPDATE", (own_name.encode(),))
        threads = [threading.Thread(target=want) for _ in range(3 * POOL)]
        for thread in threads:
            thread.start()
        time.sleep(1.5)
        # When a lock is renewed and released while all other connections wait
        begun = time.monotonic()
        held.extend()
        assert held.release()
        took = time.monotonic() - begun
        stop.set()
    for thread in threads:
        thread.join(30)
    assert took < 0.5


def test_an_interrupted_thread_leaves_nothing_that_waits_at_the_server(
    shared_postgres: PostgresServer, own_name: str
) -> None:
    url = shared_postgres.url_for(options=f"pool={POOL}&application_name={own_name}")
    with (
        Client(url) as client,
        shared_postgres.connect() as other,
        other.transaction(force_rollback=True),
    ):
        client.lock(own_name).acquire().release()
        other.execute("SELECT FROM holdfast.lines WHERE name = %s FOR UPDATE", (own_name.encode(),))
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            client.lock(own_name).acquire(timeout=30)
        until(
            lambda: (
                not shared_postgres.ask(
                    "SELECT 1 FROM pg_stat_activity WHERE application_name = %s"
                    " AND wait_event_type = 'Lock' AND query LIKE %s",
                    own_name,
                    "%join%",
                )
            ),
            "nothing of it waits",
            5.0,
        )
