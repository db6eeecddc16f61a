"""Refresh guards on an SQL database: transactions that meet, and rows that stay behind.

The tests of a store import these. It has the fixture ``bench``.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from holdfast import Client
from holdfast.core.guard.model import Abandon, Busy, Duty, Entry, Finish, Prolong, Value, Wish
from holdfast.core.model import Gone
from holdfast.runtime.blocking import run_sync
from tests.stores.sql.bench import Bench
from tests.stores.sql.fixtures import MakeClient
from tests.torture.scale import times


def guards_of(client: Client) -> Any:
    """The verbs of refresh guards."""
    return client._ctx.store.guards  # type: ignore[attr-defined]


def wish(name: str, key: str = "", lease: float = 60.0, known: int = 0, wait: bool = False) -> Wish:
    """A new request for a refresh lease."""
    return Wish(Entry(name, key), uuid.uuid4().hex, "me", lease, known, wait)


def begin(client: Client, wanted: Wish) -> Any:
    """Send this request."""
    return run_sync(guards_of(client).begin(wanted, 10.0))


def finish_of(wanted: Wish, fence: int, ttl: float = 60.0) -> Finish:
    """The request that stores a value."""
    return Finish(wanted.entry, wanted.id, fence, b"bx", ttl, 0.0, 0.0, 0.1)


def finish(client: Client, wanted: Wish, fence: int, ttl: float = 60) -> bool:
    """Store a value."""
    return bool(run_sync(guards_of(client).finish(finish_of(wanted, fence, ttl), 10.0)))


def read(client: Client, name: str, key: str = "") -> Value | None:
    """The value of an entry."""
    (found,) = run_sync(guards_of(client).read([Entry(name, key)], 10.0))
    return found  # type: ignore[no-any-return]


def invalidate(client: Client, *wishes: Wish) -> Any:
    """Invalidate the entries of these requests."""
    return run_sync(guards_of(client).invalidate([one.entry for one in wishes], 20.0))


def meanwhile(uncommitted: AbstractContextManager[Any], work: Callable[[], Any]) -> Any:
    """The result of this work if it meets a verb that isn't committed yet."""
    found: list[Any] = []
    with uncommitted as link:
        worker = threading.Thread(target=lambda: found.append(work()))
        worker.start()
        time.sleep(0.3)
        assert found == []  # it waits
        link.commit()
        worker.join(20)
    return found[0]


def rows(bench: Bench, name: str) -> dict[str, int]:
    """The number of rows of a guard in each table that has any."""
    found = {}
    for table in bench.guard_tables:
        count = f"SELECT COUNT(*) FROM {{refresh_{table}}} WHERE guard = %s"
        ((many,),) = bench.ask(count, name.encode())
        if many:
            found[table] = many
    return found


# -- transactions that meet -----------------------------------------------------------------------


def test_two_simultaneous_begins_do_not_both_get_a_new_entry(
    bench: Bench, locks: Client, own_name: str
) -> None:
    assert read(locks, own_name) is None
    first = wish(own_name)
    found = meanwhile(bench.open_begin(first), lambda: begin(locks, wish(own_name)))
    assert isinstance(found, Busy)
    assert isinstance(begin(locks, first), Duty)


def test_two_simultaneous_begins_do_not_both_get_an_old_entry(
    bench: Bench, locks: Client, own_name: str
) -> None:
    before = wish(own_name)
    assert isinstance(begin(locks, before), Duty)
    assert run_sync(guards_of(locks).abandon(Abandon(before.entry, before.id, 60.0), 10.0))
    found = meanwhile(bench.open_begin(wish(own_name)), lambda: begin(locks, wish(own_name)))
    assert isinstance(found, Busy)


def test_a_value_that_meets_an_invalidation_is_not_stored(
    bench: Bench, locks: Client, own_name: str
) -> None:
    mine = wish(own_name)
    fence = begin(locks, mine).fence
    stored = meanwhile(bench.open_invalidate(mine), lambda: finish(locks, mine, fence))
    assert stored is False
    assert read(locks, own_name) is None


def test_an_invalidation_that_meets_a_value_takes_it_away(
    bench: Bench, locks: Client, own_name: str
) -> None:
    mine = wish(own_name)
    fence = begin(locks, mine).fence
    there = meanwhile(bench.open_finish(finish_of(mine, fence)), lambda: invalidate(locks, mine))
    assert there == [True]
    assert read(locks, own_name) is None


def test_a_begin_while_a_value_is_being_stored_gets_the_value(
    bench: Bench, locks: Client, own_name: str
) -> None:
    mine = wish(own_name)
    fence = begin(locks, mine).fence
    stored = finish_of(mine, fence)
    found = meanwhile(bench.open_finish(stored), lambda: begin(locks, wish(own_name)))
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


def test_names_keys_and_values_of_any_size_and_kind(locks: Client, own_name: str) -> None:
    guard = locks.guard((own_name + "'\"\\%\N{SNOWMAN}").ljust(500, "n"), ttl=60)
    sizes = (0, 1, 3000, 2**20 - 1)
    values = {f"{'k' * 505}{at}": bytes([at]) * size for at, size in enumerate(sizes)}
    values |= {"a": b"small", "A": b"large", "a ": b"blank"}
    assert guard.get_many(values, values.__getitem__) == values
    assert guard.get_many(values, lambda _: b"computed again") == values
    for key, value in values.items():
        assert guard.get(lambda: b"computed again", key=key) == value


# -- expired rows ---------------------------------------------------------------------------------


def test_expired_rows_are_removed_and_live_rows_stay(
    bench: Bench, locks: Client, own_name: str
) -> None:
    for key, ttl in (("short", 30.0), ("long", 600.0)):
        mine = wish(own_name, key)
        assert finish(locks, mine, begin(locks, mine).fence, ttl=ttl)
    assert isinstance(begin(locks, wish(own_name, "held", lease=600.0)), Duty)
    failed = wish(own_name, "failed")
    assert isinstance(begin(locks, failed), Duty)
    pause = Abandon(failed.entry, failed.id, 60, 600, 600, "why", suspect=True)
    assert run_sync(guards_of(locks).abandon(pause, 10.0))
    assert rows(bench, own_name) == {"duties": 4, "values": 2}
    bench.sweep(locks, 100)
    assert rows(bench, own_name) == {"duties": 3, "values": 1}
    assert read(locks, own_name, "long") is not None
    assert isinstance(begin(locks, wish(own_name, "held")), Busy)
    bench.sweep(locks, 700)
    assert rows(bench, own_name) == {}
    assert not [one for one in bench.buried() if failed.id.upper() in one]


def test_clients_remove_expired_rows_while_they_work(
    bench: Bench, locks: Client, new_client: MakeClient, own_name: str
) -> None:
    old = f"{own_name}:old"
    for number in range(20):
        locks.guard(old, ttl=60).get(lambda: 1, key=f"{number}")
    bench.ask("UPDATE {refresh_duties} SET ends = 1 WHERE guard = %s", old.encode())
    new_client().guard(own_name, ttl=60).get(lambda: 1)
    assert not {"duties", "values"} & {*rows(bench, old)}


def test_the_numbers_of_a_guard_are_forgotten_after_a_week(
    bench: Bench, locks: Client, own_name: str
) -> None:
    guard = locks.guard(own_name, ttl=60)
    assert guard.get(lambda: 1) == 1
    assert guard.stats().computes == 1
    bench.sweep(locks, 7 * 86_400 - 60)
    assert guard.stats().computes == 1
    bench.sweep(locks, 7 * 86_400 + 2 * 3600)
    assert rows(bench, own_name) == {}
