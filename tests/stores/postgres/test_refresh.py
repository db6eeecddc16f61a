"""Refresh guards on PostgreSQL: transactions that meet, and rows that stay behind."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.guard.model import Abandon, Busy, Duty, Entry, Finish, Prolong, Value, Wish
from holdfast.core.model import Gone, Held
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.stores.postgres.calls import Call, bounded
from holdfast.stores.postgres.config import settings
from holdfast.stores.postgres.guard_calls import GuardCalls
from holdfast.stores.postgres.guards import PostgresGuards
from holdfast.testing import lag
from holdfast.url import find
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.torture.scale import times

MakeClient = Callable[..., Client]
lag.watch()
MINUTE_US = 60_000_000


def guards_of(client: Client) -> PostgresGuards:
    found = client._ctx.store.guards  # type: ignore[attr-defined]
    assert isinstance(found, PostgresGuards)
    return found


def wish(name: str, key: str = "", lease: float = 60.0, known: int = 0, wait: bool = False) -> Wish:
    return Wish(Entry(name, key), uuid.uuid4().hex, "me", lease, known, wait)


def begin(client: Client, wanted: Wish) -> Any:
    return run_sync(guards_of(client).begin(wanted, 10.0))


def finish_of(wanted: Wish, fence: int, data: bytes = b"bx", ttl: float = 60.0) -> Finish:
    return Finish(wanted.entry, wanted.id, fence, data, ttl, 0.0, 0.0, 0.1)


def finish(client: Client, wanted: Wish, fence: int, data: bytes = b"bx", ttl: float = 60) -> bool:
    return run_sync(guards_of(client).finish(finish_of(wanted, fence, data, ttl), 10.0))


def read(client: Client, name: str, key: str = "") -> Value | None:
    (found,) = run_sync(guards_of(client).read([Entry(name, key)], 10.0))
    return found


@contextmanager
def uncommitted(
    server: PostgresServer, make: Callable[[GuardCalls], Call]
) -> Iterator[psycopg.Connection[Any]]:
    """A verb that is executed and not yet committed, so that others do not see its changes."""
    call = bounded(make(GuardCalls(settings(find(server.url)[1]))), 5.0)
    with server.connect() as link:
        link.pgconn.exec_(b"BEGIN")
        formats = call.verb.formats
        link.pgconn.exec_params(
            call.verb.sql, [*call.values, *call.bound], param_formats=list(formats)
        )
        yield link


def meanwhile(
    server: PostgresServer, make: Callable[[GuardCalls], Call], work: Callable[[], Any]
) -> Any:
    """The result of this work if it meets a verb that isn't committed yet."""
    found: list[Any] = []
    with uncommitted(server, make) as link:
        worker = threading.Thread(target=lambda: found.append(work()))
        worker.start()
        time.sleep(0.3)
        assert found == []  # it waits
        link.pgconn.exec_(b"COMMIT")
        worker.join(20)
    return found[0]


def rows(server: PostgresServer, name: str) -> dict[str, int]:
    """The number of rows of a guard in each table that has any."""
    found = {}
    for table in ("duties", "values", "waiters", "tallies"):
        ((many,),) = server.ask(
            f"SELECT count(*) FROM holdfast.refresh_{table} WHERE guard = %s", name.encode()
        )
        if many:
            found[table] = many
    return found


def sweep(server: PostgresServer, ahead: float) -> None:
    """Remove expired rows, as if ``ahead`` seconds had passed."""
    with server.connect(options="-c search_path=holdfast") as link:
        link.execute("SELECT refresh_sweep_3(clock_3() + %s, 1000000, 0)", [round(ahead * 1e6)])


# -- transactions that meet -----------------------------------------------------------------------


def test_two_simultaneous_begins_do_not_both_get_a_new_entry(
    shared_postgres: PostgresServer, locks: Client, own_name: str
) -> None:
    assert read(locks, own_name) is None
    first = wish(own_name)
    found = meanwhile(
        shared_postgres, lambda c: c.begin(first, ""), lambda: begin(locks, wish(own_name))
    )
    assert isinstance(found, Busy)
    assert isinstance(begin(locks, first), Duty)


def test_two_simultaneous_begins_do_not_both_get_an_old_entry(
    shared_postgres: PostgresServer, locks: Client, own_name: str
) -> None:
    before = wish(own_name)
    assert isinstance(begin(locks, before), Duty)
    assert run_sync(guards_of(locks).abandon(Abandon(before.entry, before.id, 60.0), 10.0))
    first = wish(own_name)
    found = meanwhile(
        shared_postgres, lambda c: c.begin(first, ""), lambda: begin(locks, wish(own_name))
    )
    assert isinstance(found, Busy)


def test_a_value_that_meets_an_invalidation_is_not_stored(
    shared_postgres: PostgresServer, locks: Client, own_name: str
) -> None:
    mine = wish(own_name)
    fence = begin(locks, mine).fence
    stored = meanwhile(
        shared_postgres,
        lambda c: c.invalidate([mine.entry]),
        lambda: finish(locks, mine, fence),
    )
    assert stored is False
    assert read(locks, own_name) is None


def test_an_invalidation_that_meets_a_value_takes_it_away(
    shared_postgres: PostgresServer, locks: Client, own_name: str
) -> None:
    mine = wish(own_name)
    fence = begin(locks, mine).fence
    there = meanwhile(
        shared_postgres,
        lambda c: c.finish(finish_of(mine, fence)),
        lambda: run_sync(guards_of(locks).invalidate([mine.entry], 10.0)),
    )
    assert there == [True]
    assert read(locks, own_name) is None


def test_a_begin_while_a_value_is_being_stored_gets_the_value(
    shared_postgres: PostgresServer, locks: Client, own_name: str
) -> None:
    mine = wish(own_name)
    fence = begin(locks, mine).fence
    found = meanwhile(
        shared_postgres,
        lambda c: c.finish(finish_of(mine, fence)),
        lambda: begin(locks, wish(own_name)),
    )
    assert isinstance(found, Value)
    assert (found.data, found.version) == (b"bx", fence)


def test_batches_in_any_order_do_not_deadlock(new_client: MakeClient, own_name: str) -> None:
    entries = [Entry(own_name, f"{at}") for at in range(40)]
    wrong: list[BaseException] = []

    def work(order: int) -> None:
        try:
            guards = guards_of(new_client())
            for _ in range(times(60, 10)):
                for entry in entries[::7]:
                    run_sync(guards.begin(Wish(entry, uuid.uuid4().hex, "me", 60.0), 20.0))
                run_sync(guards.invalidate(entries[::order], 20.0))
                late = [Prolong(entry, uuid.uuid4().hex, 1, 1.0) for entry in entries[::order]]
                assert all(isinstance(one, Gone) for one in run_sync(guards.prolong(late, 20.0)))
        except BaseException as failure:
            wrong.append(failure)

    threads = [threading.Thread(target=work, args=(order,)) for order in (1, -1, 1, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


# -- the verbs ------------------------------------------------------------------------------------


def test_each_verb_sent_twice_has_the_effect_of_one(locks: Client, own_name: str) -> None:
    guards, mine = guards_of(locks), wish(own_name)
    first, again = begin(locks, mine), begin(locks, mine)
    assert isinstance(first, Duty)
    assert isinstance(again, Duty)
    assert (again.fence, again.expires_in <= first.expires_in) == (first.fence, True)
    for _ in range(2):
        (held,) = run_sync(guards.prolong([Prolong(mine.entry, mine.id, first.fence, 9.0)], 10.0))
        assert held == Held(first.fence, 9.0)
    for _ in range(2):
        assert finish(locks, mine, first.fence) is True
    found = read(locks, own_name)
    assert found is not None
    assert (found.data, found.version) == (b"bx", first.fence)
    other = wish(own_name, known=first.fence)
    assert begin(locks, other).fence > first.fence
    failed = Abandon(other.entry, other.id, 60.0, 5.0, 20.0, "why")
    assert [run_sync(guards.abandon(failed, 10.0)) for _ in range(2)] == [True, False]
    seen = run_sync(guards.look(mine.entry, 10.0))
    assert (seen.failures, seen.reason, seen.owner) == (1, "why", "")
    assert run_sync(guards.invalidate([mine.entry] * 2, 10.0)) == [True, False]


def test_an_expired_refresh_lease_stores_nothing(locks: Client, own_name: str) -> None:
    mine, other = wish(own_name, lease=0.1), wish(own_name)
    fence = begin(locks, mine).fence
    time.sleep(0.12)
    assert finish(locks, mine, fence) is False
    (gone,) = run_sync(guards_of(locks).prolong([Prolong(mine.entry, mine.id, fence, 60.0)], 10.0))
    assert isinstance(gone, Gone)
    assert read(locks, own_name) is None
    assert begin(locks, other).fence > fence


def test_an_abandoned_request_that_arrives_late_gets_no_refresh_lease(
    locks: Client, own_name: str
) -> None:
    late = wish(own_name)
    given_up = Abandon(late.entry, late.id, 1.0, suspect=True)
    assert run_sync(guards_of(locks).abandon(given_up, 10.0)) is False
    assert isinstance(begin(locks, late), Busy)
    assert isinstance(begin(locks, wish(own_name)), Duty)


def test_names_keys_and_values_of_any_size_and_kind(locks: Client, own_name: str) -> None:
    guard = locks.guard((own_name + "'\"\\%\N{SNOWMAN}").ljust(500, "n"), ttl=60)
    sizes = (0, 1, 3000, 2**20 - 1)
    values = {f"{'k' * 505}{at}": bytes([at]) * size for at, size in enumerate(sizes)}
    assert guard.get_many(values, values.__getitem__) == values
    assert guard.get_many(values, lambda _: b"computed again") == values
    for key, value in values.items():
        assert guard.get(lambda: b"computed again", key=key) == value


# -- waiters --------------------------------------------------------------------------------------


def test_all_waiters_are_woken_at_once(
    shared_postgres: PostgresServer, new_client: MakeClient, own_name: str
) -> None:
    clients = [new_client() for _ in range(4)]
    for client in clients:  # each listens already
        warm = client.guard(f"{own_name}:{id(client)}", ttl=60)
        assert warm.get(lambda: 1) == 1
    took = [_until_all_have_it(shared_postgres, clients, f"{own_name}:{at}") for at in range(3)]
    # The wake-up comes before the next poll; the fastest of three counts, as the server can be slow
    assert min(took) < 0.5


def _until_all_have_it(server: PostgresServer, clients: list[Client], name: str) -> float:
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
    until(lambda: rows(server, name).get("waiters") == 3, "they wait")
    begun, since = time.monotonic(), boottime()
    go.set()
    for thread in threads:
        thread.join(20)
    assert [found for found, _ in done] == ["value"] * 4
    assert "waiters" not in rows(server, name)
    return max(when for _, when in done) - begun - lag.since(since)


def test_a_waiter_asks_again_when_a_dead_callers_lease_expires(
    locks: Client, own_name: str
) -> None:
    assert isinstance(begin(locks, wish(own_name, lease=1.0)), Duty)
    begun, since = time.monotonic(), boottime()
    assert locks.guard(own_name, ttl=60).get(lambda: "next") == "next"
    assert time.monotonic() - begun < 4.0 + lag.since(since)


# -- expired rows ---------------------------------------------------------------------------------


def test_expired_rows_are_removed_and_live_rows_stay(
    shared_postgres: PostgresServer, locks: Client, own_name: str
) -> None:
    for key, ttl in (("short", 30.0), ("long", 600.0)):
        mine = wish(own_name, key)
        assert finish(locks, mine, begin(locks, mine).fence, ttl=ttl)
    held = wish(own_name, "held", lease=600.0)
    assert isinstance(begin(locks, held), Duty)
    failed = wish(own_name, "failed")
    assert isinstance(begin(locks, failed), Duty)
    run_sync(guards_of(locks).abandon(Abandon(failed.entry, failed.id, 60, 600, 600, "why"), 10.0))
    run_sync(guards_of(locks)._begin(wish(own_name, "held", wait=True), "nowhere", 10.0))
    assert rows(shared_postgres, own_name) == {"duties": 4, "values": 2, "waiters": 1}
    sweep(shared_postgres, 100)
    assert rows(shared_postgres, own_name) == {"duties": 3, "values": 1}
    assert read(locks, own_name, "long") is not None
    assert isinstance(begin(locks, wish(own_name, "held")), Busy)
    sweep(shared_postgres, 700)
    assert rows(shared_postgres, own_name) == {}


def test_clients_remove_expired_rows_while_they_work(
    shared_postgres: PostgresServer, locks: Client, new_client: MakeClient, own_name: str
) -> None:
    old = f"{own_name}:old"
    for number in range(20):
        locks.guard(old, ttl=60).get(lambda: 1, key=f"{number}")
    shared_postgres.ask(
        "UPDATE holdfast.refresh_duties SET ends = 1 WHERE guard = %s", old.encode()
    )
    new_client().guard(own_name, ttl=60).get(lambda: 1)
    assert not {"duties", "values"} & {*rows(shared_postgres, old)}


def test_the_numbers_of_a_guard_are_forgotten_after_a_week(
    shared_postgres: PostgresServer, locks: Client, own_name: str
) -> None:
    guard = locks.guard(own_name, ttl=60)
    assert guard.get(lambda: 1) == 1
    assert guard.stats().computes == 1
    sweep(shared_postgres, 7 * 86_400 - 60)
    assert guard.stats().computes == 1
    sweep(shared_postgres, 7 * 86_400 + 2 * 3600)
    assert rows(shared_postgres, own_name) == {}


# -- the server -----------------------------------------------------------------------------------


def test_a_server_that_crashes_loses_values_and_refuses_what_was_computed(
    new_postgres: Callable[..., PostgresServer], own_name: str
) -> None:
    server = new_postgres()
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
            run_sync(guards_of(client).read([Entry(own_name, "")], 0.2))
