"""A verb locks the row of the name first, so two claims at the same time never both hold."""

from __future__ import annotations

import threading

import psycopg

from holdfast import Client
from holdfast.testing.faces import FACES
from tests.servers.process import until
from tests.stores.postgres.conftest import Bench, NewServer, asked_when_woken
from tests.stores.sql.waiting import *  # noqa: F403

#: A join and a release of another client.
JOIN = (
    "SELECT holdfast.join_4(%s, gen_random_uuid(), 'lock', 1, 1, 30000000, -3000000, '', 'slow',"
    " '', 4000000, false)"
)
LEAVE = "SELECT holdfast.leave_4(%s, NULL, %s, 0, false, 0, 4000000, false)"
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'join_4'"


def meanwhile(bench: Bench, client: Client, name: str) -> list[object]:
    """The result of a try that starts before the join of another claim is committed."""
    with psycopg.connect(bench.server.url) as slow:
        # Given a join that is not committed yet
        slow.execute(JOIN, (name.encode(),))
        found: list[object] = []
        lock = client.lock(name)
        thread = threading.Thread(target=lambda: found.append(lock.acquire(blocking=False)))
        thread.start()
        until(lambda: bench.ask(WAITING), "the other one waits for the row")
        # When that join is committed
        slow.commit()
        thread.join(20)
    return found


def test_a_claim_that_waited_for_the_row_sees_the_intermediate_changes(
    bench: Bench, locks: Client, own_name: str
) -> None:
    """A snapshot of a single statement would be older than the commit that it waited for."""
    locks.lock(own_name).acquire().release()
    # Then the try is refused
    assert meanwhile(bench, locks, own_name) == [None]


def test_a_claim_that_waited_for_a_new_row_sees_it(
    bench: Bench, locks: Client, own_name: str
) -> None:
    assert meanwhile(bench, locks, own_name) == [None]


def test_fences_rise_in_the_order_of_the_grants_however_the_commits_come(
    bench: Bench, locks: Client, own_name: str
) -> None:
    first, name = locks.lock(own_name).acquire(), own_name.encode()
    with psycopg.connect(bench.server.url) as slow:
        # Given a release that isn't committed yet, and a join that waits for it
        slow.execute(LEAVE, (name, first.fence))
        fences: list[int] = []
        lock = locks.lock(own_name)
        thread = threading.Thread(target=lambda: fences.append(lock.acquire(timeout=20).fence))
        thread.start()
        until(lambda: bench.ask(WAITING), "the other one waits for the row")
        # When the open transaction adds and releases another claim, after that join began
        ((said,),) = slow.execute(JOIN, (name,)).fetchall()
        between = int(said.split()[1])
        slow.execute(LEAVE, (name, between))
        slow.commit()
        thread.join(20)
    assert first.fence < between < fences[0]


def test_a_lock_whose_last_use_is_long_ago_leaves_no_row(
    new_server: NewServer,
) -> None:
    server = new_server()
    with Client(server.url) as client:
        client.lock("held", ttl=600).acquire()
        # Given many names that were last used hours ago
        server.ask(
            "INSERT INTO holdfast.lines (name)"
            " SELECT convert_to('old ' || n, 'UTF8') FROM generate_series(1, 500) n"
        )
        server.ask("UPDATE holdfast.lines SET hour = (SELECT max(hour) - 5 FROM holdfast.lines)")
        # When a few other names come into use
        for number in range(20):
            client.lock(f"new {number}").acquire().release()
        # Then the free names are gone, and the held name is not
        names = {bytes(row[0]).decode() for row in server.ask("SELECT name FROM holdfast.lines")}
        assert not [name for name in names if name.startswith("old")]
        assert "held" in names


def test_a_waiter_is_woken_when_its_turn_comes(url: str, own_name: str) -> None:
    # Given a waiter that has just begun to wait, and would ask again after a second
    asked, _ = asked_when_woken(FACES["sync"], (url, url), own_name, 5)
    # Then it holds without having asked, at least once if the machine is slow
    assert asked == 0
