"""Refresh guards on PostgreSQL: see ``tests/stores/sql/refresh.py``; wake-ups, and a crash."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.testing import lag
from tests.servers.process import until
from tests.stores.postgres.conftest import Bench, NewServer
from tests.stores.sql.fixtures import MakeClient
from tests.stores.sql.refresh import *  # noqa: F403
from tests.stores.sql.refresh import begin, guards_of, rows, wish

lag.watch()


def test_all_waiters_are_woken_at_once(bench: Bench, new_client: MakeClient, own_name: str) -> None:
    clients = [new_client() for _ in range(4)]
    for client in clients:  # each listens already
        warm = client.guard(f"{own_name}:{id(client)}", ttl=60)
        assert warm.get(lambda: 1) == 1
    took = [_until_all_have_it(bench, clients, f"{own_name}:{at}") for at in range(3)]
    # The wake-up comes before the next poll; the fastest of three counts, as the server can be slow
    assert min(took) < 0.5


def _until_all_have_it(bench: Bench, clients: list[Client], name: str) -> float:
    """The seconds until all waiters have the value that one caller computes."""
    go, inside = threading.Event(), threading.Event()
    done: list[tuple[Any, float]] = []

    def compute() -> str:
        inside.set()
        go.wait(20)
        return "value"

    def ask(client: Client) -> None:
        found = client.guard(name, ttl=60).get(compute)
        done.append((found, time.monotonic()))

    threads = [threading.Thread(target=ask, args=(client,)) for client in clients]
    threads[0].start()
    assert inside.wait(20)
    for thread in threads[1:]:
        thread.start()
    until(lambda: rows(bench, name).get("waiters") == 3, "they wait")
    begun, since = time.monotonic(), boottime()
    go.set()
    for thread in threads:
        thread.join(20)
    assert [found for found, _ in done] == ["value"] * 4
    assert "waiters" not in rows(bench, name)
    return max(when for _, when in done) - begun - lag.since(since)


def test_expired_waiters_are_removed(bench: Bench, locks: Client, own_name: str) -> None:
    begin(locks, wish(own_name, lease=600.0))
    run_sync(guards_of(locks)._begin(wish(own_name, wait=True), "nowhere", 10.0))
    assert rows(bench, own_name) == {"duties": 1, "waiters": 1}
    bench.sweep(locks, 100)
    assert rows(bench, own_name) == {"duties": 1}


def test_a_server_that_crashes_loses_values_and_refuses_what_was_computed(
    new_server: NewServer, own_name: str
) -> None:
    server = new_server()
    with Client(server.url) as client:
        guard = client.guard(own_name, ttl=60)
        assert guard.get(lambda: "kept", key="a") == "kept"

        def compute() -> str:
            server.crash()
            return "late"

        # The server is back with empty tables: the refresh lease is gone, and the value isn't
        # stored
        assert guard.get(compute, key="b", timeout=30) == "late"
        assert (guard.inspect("b").version, guard.inspect("a").version) == (0, 0)
        assert guard.get(lambda: "anew", key="a") == "anew"
        assert guard.get(lambda: "anew", key="b") == "anew"
        # A restart in order keeps the values
        server.restart()
        assert guard.get(lambda: "again", key="a") == "anew"
        # While the server is away, a read is an error
        server.close()
        with pytest.raises(StoreUnavailable):
            run_sync(guards_of(client).read([wish(own_name).entry], 0.2))
