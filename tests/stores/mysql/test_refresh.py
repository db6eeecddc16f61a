"""Refresh guards on MySQL and MariaDB: transactions that meet, and rows that stay."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.guard.model import Abandon, Busy, Duty, Entry, Finish, Prolong, Value, Wish
from holdfast.core.model import Gone, Held
from holdfast.runtime.blocking import boottime, run_sync
from holdfast.stores.mysql.guards import MysqlGuards
from holdfast.testing import lag
from tests.servers.mariadb_server import MariadbServer

MakeClient = Callable[..., Client]
lag.watch()
NOW = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))"


def guards_of(client: Client) -> MysqlGuards:
    found = client._ctx.store.guards  # type: ignore[attr-defined]
    assert isinstance(found, MysqlGuards)
    return found


def wish(name: str, key: str = "", lease: float = 60.0, known: int = 0, wait: bool = False) -> Wish:
    return Wish(Entry(name, key), uuid.uuid4().hex, "me", lease, known, wait)


def begin(client: Client, wanted: Wish) -> Any:
    return run_sync(guards_of(client).begin(wanted, 10.0))


def finish(client: Client, wanted: Wish, fence: int, ttl: float = 60.0) -> bool:
    request = Finish(wanted.entry, wanted.id, fence, b"bx", ttl, 0.0, 0.0, 0.1)
    return run_sync(guards_of(client).finish(request, 10.0))


def read(client: Client, name: str, key: str = "") -> Value | None:
    (found,) = run_sync(guards_of(client).read([Entry(name, key)], 10.0))
    return found


def meanwhile(
    server: MariadbServer, done: Sequence[str], name: str, work: Callable[[], Any]
) -> Any:
    """The result of this work, if it meets an open transaction that has run these statements."""
    found: list[Any] = []
    with server.connect(autocommit=False) as link, link.cursor() as cursor:
        for sql in done:
            cursor.execute(sql.replace("NAME", f"X'{name.encode().hex()}'").replace("NOW", NOW))
        worker = threading.Thread(target=lambda: found.append(work()))
        worker.start()
        time.sleep(0.3)
        assert found == []  # it waits
        link.commit()
        worker.join(20)
    return found[0]


TAKEN = f"id = X'{'ab' * 16}', fence = NOW, lease = NOW + 9000000, ends = 2000000000"
AT_NAME = "WHERE guard = NAME AND entry = ''"


def rows(server: MariadbServer, name: str) -> dict[str, int]:
    """The number of rows of a guard in each table that has any."""
    found = {}
    for table in ("duties", "values", "tallies"):
        ((many,),) = server.ask(
            f"SELECT COUNT(*) FROM holdfast.holdfast_refresh_{table} WHERE guard = %s",
            name.encode(),
        )
        if many:
            found[table] = many
    return found


def sweep(client: Client, server: MariadbServer, ahead: float) -> None:
    """Remove expired rows, as if ``ahead`` seconds had passed."""
    ((now,),) = server.ask(f"SELECT {NOW}")
    guards = guards_of(client)
    sql = guards._calls.sweep(1_000_000, now + round(ahead * 1e6))
    run_sync(guards._port.call(sql, 10.0))


# -- transactions that meet -----------------------------------------------------------------------


def test_two_simultaneous_begins_do_not_both_get_a_new_entry(
    shared_mariadb: MariadbServer, locks: Client, own_name: str
) -> None:
    insert = f"INSERT INTO holdfast_refresh_duties SET guard = NAME, entry = '', {TAKEN}"
    found = meanwhile(shared_mariadb, [insert], own_name, lambda: begin(locks, wish(own_name)))
    assert isinstance(found, Busy)


def test_two_simultaneous_begins_do_not_both_get_an_old_entry(
    shared_mariadb: MariadbServer, locks: Client, own_name: str
) -> None:
    before = wish(own_name)
    assert isinstance(begin(locks, before), Duty)
    assert run_sync(guards_of(locks).abandon(Abandon(before.entry, before.id, 60.0), 10.0))
    update = f"UPDATE holdfast_refresh_duties SET {TAKEN} {AT_NAME}"
    found = meanwhile(shared_mariadb, [update], own_name, lambda: begin(locks, wish(own_name)))
    assert isinstance(found, Busy)


def test_of_many_simultaneous_begins_one_computes(new_client: MakeClient, own_name: str) -> None:
    clients = [new_client() for _ in range(4)]
    assert [read(client, own_name) for client in clients] == [None] * 4
    for turn in range(25):
        start = threading.Barrier(4)
        found: list[Any] = []

        def work(client: Client, key: str, start: threading.Barrier, found: list[Any]) -> None:
            start.wait(20)
            found.append(begin(client, wish(own_name, key)))

        crew = [
            threading.Thread(target=work, args=(client, f"{turn}", start, found))
            for client in clients
        ]
        for one in crew:
            one.start()
        for one in crew:
            one.join(20)
        assert sorted(type(one).__name__ for one in found) == ["Busy"] * 3 + ["Duty"]


def test_a_value_that_meets_an_invalidation_is_not_stored(
    shared_mariadb: MariadbServer, locks: Client, own_name: str
) -> None:
    mine = wish(own_name)
    fence = begin(locks, mine).fence
    done = [f"UPDATE holdfast_refresh_duties SET id = NULL, ended = ended + 1 {AT_NAME}"]
    assert meanwhile(shared_mariadb, done, own_name, lambda: finish(locks, mine, fence)) is False
    assert read(locks, own_name) is None


def test_an_invalidation_ends_the_refresh_lease_and_its_computation(
    locks: Client, own_name: str
) -> None:
    for known in (True, False):
        mine = wish(own_name, f"{known}")
        if known:
            first = wish(own_name, f"{known}")
            assert finish(locks, first, begin(locks, first).fence, ttl=0.001)
            time.sleep(0.002)
        fence = begin(locks, mine).fence
        assert run_sync(guards_of(locks).invalidate([mine.entry], 10.0)) == [False]
        assert finish(locks, mine, fence) is False
        assert read(locks, own_name, f"{known}") is None


def test_an_invalidation_that_meets_a_value_takes_it_away(
    shared_mariadb: MariadbServer, locks: Client, own_name: str
) -> None:
    mine = wish(own_name)
    fence = begin(locks, mine).fence
    until = "NOW + 9000000"
    columns = f"version = {fence}, fresh = {until}, stale = {until}, kept = {until}, cost = 1"
    done = [
        f"UPDATE holdfast_refresh_duties SET id = NULL, kept = {until} {AT_NAME}",
        f"INSERT INTO holdfast_refresh_values SET guard = NAME, entry = '', data = 'bx', {columns}",
    ]
    there = meanwhile(
        shared_mariadb,
        done,
        own_name,
        lambda: run_sync(guards_of(locks).invalidate([mine.entry], 10.0)),
    )
    assert there == [True]
    assert read(locks, own_name) is None


def test_an_invalidation_writes_the_row_even_if_there_is_none(
    shared_mariadb: MariadbServer, locks: Client, own_name: str
) -> None:
    # Otherwise a Galera node would not notice that a caller has begun on another node
    assert run_sync(guards_of(locks).invalidate([Entry(own_name, "")], 10.0)) == [False]
    assert rows(shared_mariadb, own_name) == {"duties": 1}
    sweep(locks, shared_mariadb, 100)
    assert rows(shared_mariadb, own_name) == {}


def test_batches_in_any_order_are_all_carried_out(new_client: MakeClient, own_name: str) -> None:
    entries = [Entry(own_name, f"{at}") for at in range(30)]
    wrong: list[BaseException] = []

    def work(order: int) -> None:
        try:
            guards = guards_of(new_client())
            for _ in range(6):
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
    values |= {"a": b"small", "A": b"large", "a ": b"blank"}
    assert guard.get_many(values, values.__getitem__) == values
    assert guard.get_many(values, lambda _: b"computed again") == values
    for key, value in values.items():
        assert guard.get(lambda: b"computed again", key=key) == value


def test_many_are_invalidated_in_a_few_transactions(locks: Client, own_name: str) -> None:
    entries = [Entry(own_name, f"{at}") for at in range(1000)]
    mine = wish(own_name, "700")
    assert finish(locks, mine, begin(locks, mine).fence)
    there = run_sync(guards_of(locks).invalidate(entries, 20.0))
    assert [at for at, one in enumerate(there) if one] == [700]


# -- waiters --------------------------------------------------------------------------------------


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
            run_sync(guards.invalidate([mine.entry], 10.0))
        begun, since = time.monotonic(), boottime()
        assert run_sync(guards.wait(other, 20.0)) is True
        assert time.monotonic() - begun < 5.0 + lag.since(since)
        guards.unlisten(other)
        assert guards._waiting == {}


def test_a_waiter_asks_again_when_a_dead_callers_lease_expires(
    locks: Client, own_name: str
) -> None:
    assert isinstance(begin(locks, wish(own_name, lease=1.0)), Duty)
    begun, since = time.monotonic(), boottime()
    assert locks.guard(own_name, ttl=60).get(lambda: "next") == "next"
    assert time.monotonic() - begun < 4.0 + lag.since(since)


# -- expired rows ---------------------------------------------------------------------------------


def test_expired_rows_are_removed_and_live_rows_stay(
    shared_mariadb: MariadbServer, locks: Client, own_name: str
) -> None:
    for key, ttl in (("short", 30.0), ("long", 600.0)):
        mine = wish(own_name, key)
        assert finish(locks, mine, begin(locks, mine).fence, ttl=ttl)
    assert isinstance(begin(locks, wish(own_name, "held", lease=600.0)), Duty)
    failed = wish(own_name, "failed")
    assert isinstance(begin(locks, failed), Duty)
    pause = Abandon(failed.entry, failed.id, 60, 600, 600, "why", suspect=True)
    assert run_sync(guards_of(locks).abandon(pause, 10.0))
    assert rows(shared_mariadb, own_name) == {"duties": 4, "values": 2}
    tombs = "SELECT COUNT(*) FROM holdfast.holdfast_refresh_tombs WHERE id = %s"
    assert shared_mariadb.ask(tombs, bytes.fromhex(failed.id)) == [(1,)]
    sweep(locks, shared_mariadb, 100)
    assert rows(shared_mariadb, own_name) == {"duties": 3, "values": 1}
    assert read(locks, own_name, "long") is not None
    assert isinstance(begin(locks, wish(own_name, "held")), Busy)
    sweep(locks, shared_mariadb, 700)
    assert rows(shared_mariadb, own_name) == {}
    assert shared_mariadb.ask(tombs, bytes.fromhex(failed.id)) == [(0,)]


def test_clients_remove_expired_rows_while_they_work(
    shared_mariadb: MariadbServer, locks: Client, new_client: MakeClient, own_name: str
) -> None:
    old = f"{own_name}:old"
    for number in range(20):
        locks.guard(old, ttl=60).get(lambda: 1, key=f"{number}")
    over = "UPDATE holdfast.holdfast_refresh_duties SET ends = 1 WHERE guard = %s"
    shared_mariadb.ask(over, old.encode())
    new_client().guard(own_name, ttl=60).get(lambda: 1)
    assert not {"duties", "values"} & {*rows(shared_mariadb, old)}


def test_the_numbers_of_a_guard_are_forgotten_after_a_week(
    shared_mariadb: MariadbServer, locks: Client, own_name: str
) -> None:
    guard = locks.guard(own_name, ttl=60)
    assert guard.get(lambda: 1) == 1
    assert guard.stats().computes == 1
    sweep(locks, shared_mariadb, 7 * 86_400 - 60)
    assert guard.stats().computes == 1
    sweep(locks, shared_mariadb, 7 * 86_400 + 60)
    assert rows(shared_mariadb, own_name) == {}


# -- the server -----------------------------------------------------------------------------------


def test_a_killed_server_keeps_values_and_refresh_leases(
    new_mariadb: Callable[..., MariadbServer], own_name: str
) -> None:
    server = new_mariadb()
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
