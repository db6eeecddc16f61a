"""Refresh guards on MySQL and MariaDB: see ``tests/stores/sql/refresh.py``; waits, and a crash."""

from __future__ import annotations

import time

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.guard.model import Abandon, Busy, Entry
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.testing import lag
from tests.stores.mysql.conftest import Bench, NewServer
from tests.stores.sql.refresh import *  # noqa: F403
from tests.stores.sql.refresh import begin, finish, guards_of, invalidate, rows, wish

lag.watch()


def test_an_invalidation_writes_the_row_even_if_there_is_none(
    bench: Bench, locks: Client, own_name: str
) -> None:
    # Otherwise a Galera node would not notice that a caller has begun on another node
    assert invalidate(locks, wish(own_name)) == [False]
    assert rows(bench, own_name) == {"duties": 1}
    bench.sweep(locks, 100)
    assert rows(bench, own_name) == {}


def test_many_are_invalidated_in_a_few_transactions(locks: Client, own_name: str) -> None:
    entries = [Entry(own_name, f"{at}") for at in range(1000)]
    mine = wish(own_name, "700")
    assert finish(locks, mine, begin(locks, mine).fence)
    there = run_sync(guards_of(locks).invalidate(entries, 20.0))
    assert [at for at, one in enumerate(there) if one] == [700]


def test_a_waiter_soon_notices_the_end_of_the_refresh_lease(locks: Client, own_name: str) -> None:
    for end in ("finish", "abandon", "invalidate"):
        mine, other = wish(own_name, end), wish(own_name, end, wait=True)
        fence, guards = begin(locks, mine).fence, guards_of(locks)
        assert isinstance(begin(locks, other), Busy)
        assert run_sync(guards.wait(other, 0.05)) is False
        if end == "finish":
            assert finish(locks, mine, fence)
        elif end == "abandon":
            assert run_sync(guards.abandon(Abandon(mine.entry, mine.id, 60.0), 10.0))
        else:
            invalidate(locks, mine)
        begun, since = time.monotonic(), boottime()
        assert run_sync(guards.wait(other, 20.0)) is True
        assert time.monotonic() - begun < 5.0 + lag.since(since)
        guards.unlisten(other)
        assert guards._pauses == guards._ended == {}


def test_a_killed_server_keeps_values_and_refresh_leases(
    new_server: NewServer, own_name: str
) -> None:
    server = new_server()
    with Client(server.url) as client:
        guard = client.guard(own_name, ttl=60)
        assert guard.get(lambda: "kept", key="a") == "kept"

        def compute() -> str:
            server.kill()
            server.start()
            return "stored all the same"

        assert guard.get(compute, key="b") == "stored all the same"
        assert guard.get(lambda: "again", key="b") == "stored all the same"
        assert guard.get(lambda: "again", key="a") == "kept"
        # While the server is away, that is an error
        server.close()
        with pytest.raises(StoreUnavailable):
            run_sync(guards_of(client).read([Entry(own_name, "")], 0.2))
