"""A limit of the client also limits the server: see ``tests/stores/stalled.py``; standbys."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import psycopg
import pytest

from holdfast import Client, StoreUnavailable
from holdfast.testing.faces import Face
from tests.servers.process import until
from tests.stores.postgres.conftest import Bench, NewServer, acknowledged
from tests.stores.stalled import (
    EACH,
    POOL,
    most_sessions,
    test_a_stalled_row_takes_up_no_more_than_the_pool,
)

__all__ = ["test_a_stalled_row_takes_up_no_more_than_the_pool"]


@pytest.mark.usual(0)
@EACH
def test_a_standby_that_never_acknowledges_takes_up_no_more_than_the_pool(
    bench: Bench, new_server: NewServer, own_name: str, face: Face
) -> None:
    server = new_server()
    with Client(server.url) as client:
        client.lock(own_name).acquire().release()
    acknowledged(server, False)
    url = bench.labelled(server, own_name, POOL)
    try:
        most = most_sessions(face, url, own_name, lambda: bench.sessions(server, own_name))
        # The client has cancelled each given-up request at the server
        until(lambda: not bench.sessions(server, own_name), "no session waits for the standby")
    finally:
        acknowledged(server, True)
    assert 1 <= most <= POOL + 2
    with Client(url) as client, client.lock(own_name, timeout=40):
        pass


@pytest.mark.usual(1)
@EACH
def test_a_cancellation_that_overtakes_its_request_is_sent_again(
    bench: Bench, new_server: NewServer, own_name: str, face: Face
) -> None:
    server = new_server()
    stopped: list[int] = []

    def commit() -> None:
        with contextlib.suppress(psycopg.Error), server.connect() as one:  # until the server ends
            one.execute("SELECT pg_logical_emit_message(true, 'holdfast', 'one')")

    writer = threading.Thread(target=commit)
    someone_waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"

    def stop() -> None:
        acknowledged(server, False)
        writer.start()
        until(lambda: server.ask(someone_waits), "who commits waits for a standby")
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
        for (pid,) in server.ask(query, own_name):
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)

    async def main() -> None:
        async with face.client(bench.labelled(server, own_name, POOL)) as client:
            async with client.lock(own_name):
                pass
            await face.outside(stop)
            with pytest.raises(StoreUnavailable):
                await client.lock(own_name).acquire(timeout=0)

    # Given a session that does not read its request before that is cancelled
    try:
        face.run(main, 60)
        time.sleep(0.3)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    # Then it does not wait for the standby without a time limit
    assert stopped
    until(lambda: not bench.sessions(server, own_name), "no session waits for the standby")
    server.kill()
    writer.join()


def test_an_interrupted_thread_leaves_nothing_that_waits_at_the_server(
    bench: Bench, own_name: str
) -> None:
    waits = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = %s"
    with Client(bench.labelled(bench.server, own_name, POOL)) as client:
        client.lock(own_name).acquire().release()
        with bench.locked(own_name):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                client.lock(own_name).acquire(timeout=30)
            until(lambda: not bench.ask(waits, own_name, "Lock"), "nothing of it waits", 5.0)
