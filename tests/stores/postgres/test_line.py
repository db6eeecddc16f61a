"""A verb locks the row of the name first, so two claims at the same time never both hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from holdfast import Client
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.stores.postgres.conftest import MakeClient, asked_when_woken
from tests.torture.scale import times

ROUNDS = times(300, 40)


def test_two_simultaneous_acquires_do_not_both_hold(new_client: MakeClient, own_name: str) -> None:
    clients = [new_client() for _ in range(2)]
    start = threading.Barrier(2)

    def try_(client: Client, name: str) -> int:
        start.wait()
        hold = client.lock(name).acquire(blocking=False)
        return hold.fence if hold else 0

    both = 0
    with ThreadPoolExecutor(2) as pool:
        for number in range(ROUNDS):
            # Half of the names are used for the first time, the others were used before
            name = f"{own_name}:{number if number % 2 else 0}"
            fences = [one.result() for one in [pool.submit(try_, c, name) for c in clients]]
            assert any(fences)
            both += all(fences)
            for line in clients[0].inspect(name, exact=True):
                for claim in line.claims:
                    clients[0].break_(name, claim.fence)
    assert both == 0


def meanwhile(url: str, client: Client, name: str, server: PostgresServer) -> list[object]:
    """The result of a try that starts before the join of another claim is committed."""
    with psycopg.connect(url) as slow:
        # Given a join that is not committed yet
        slow.execute(
            "SELECT holdfast.join_3(%s, gen_random_uuid(), 'lock', 1, 1, 30000000, -3000000, '',"
            " 'slow', '', 4000000, false)",
            (name.encode(),),
        )
        found: list[object] = []
        thread = threading.Thread(
            target=lambda: found.append(client.lock(name).acquire(blocking=False))
        )
        thread.start()
        until(
            lambda: server.ask(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND query LIKE '%join_3%'"
            ),
            "the other one waits for the row",
        )
        # When that join is committed
        slow.commit()
        thread.join(20)
    return found


def test_a_claim_that_waited_for_the_row_sees_the_intermediate_changes(
    postgres_url: str, new_client: MakeClient, own_name: str, shared_postgres: PostgresServer
) -> None:
    """A snapshot of a single statement would be older than the commit that it waited for."""
    client = new_client()
    client.lock(own_name).acquire().release()
    # Then the try is refused
    assert meanwhile(postgres_url, client, own_name, shared_postgres) == [None]


def test_a_claim_that_waited_for_a_new_row_sees_it(
    postgres_url: str, new_client: MakeClient, own_name: str, shared_postgres: PostgresServer
) -> None:
    client = new_client()
    client.lock(f"{own_name}:another").acquire().release()
    assert meanwhile(postgres_url, client, own_name, shared_postgres) == [None]


def test_fences_rise_in_the_order_of_the_grants_however_the_commits_come(
    postgres_url: str, new_client: MakeClient, own_name: str, shared_postgres: PostgresServer
) -> None:
    client = new_client()
    first = client.lock(own_name).acquire()
    with psycopg.connect(postgres_url) as slow:
        # Given a release that isn't committed yet, and a join that waits for it
        slow.execute(
            "SELECT holdfast.leave_3(%s, NULL, %s, 0, false, 0, 4000000, false)",
            (own_name.encode(), first.fence),
        )
        fences: list[int] = []
        thread = threading.Thread(
            target=lambda: fences.append(client.lock(own_name).acquire(timeout=20).fence)
        )
        thread.start()
        until(
            lambda: shared_postgres.ask(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND query LIKE '%join_3%'"
            ),
            "the other one waits for the row",
        )
        # When the open transaction adds and releases another claim, after that join began
        row = slow.execute(
            "SELECT holdfast.join_3(%s, gen_random_uuid(), 'lock', 1, 1, 30000000, -3000000, '',"
            " 'slow', '', 4000000, false)",
            (own_name.encode(),),
        ).fetchone()
        assert row is not None
        between = int(row[0].split()[1])
        slow.execute(
            "SELECT holdfast.leave_3(%s, NULL, %s, 0, false, 0, 4000000, false)",
            (own_name.encode(), between),
        )
        slow.commit()
        thread.join(20)
    assert first.fence < between < fences[0]


def test_a_lock_whose_last_use_is_long_ago_leaves_no_row(
    new_postgres: Callable[..., PostgresServer],
) -> None:
    server = new_postgres()
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


def test_a_waiter_asks_less_than_once_a_second_and_is_woken_at_once(
    new_postgres: Callable[..., PostgresServer],
) -> None:
    server = new_postgres("shared_preload_libraries = pg_stat_statements")
    server.ask("CREATE EXTENSION pg_stat_statements")
    with Client(server.url) as one, Client(server.url) as two:
        hold = one.lock("x").acquire()
        served: list[float] = []

        def work() -> None:
            with two.lock("x", timeout=60):
                served.append(time.monotonic())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(one.inspect("x")[0].waiters) == 4, "all wait")
        time.sleep(0.5)
        server.ask("SELECT pg_stat_statements_reset()")
        seconds = 3.6
        time.sleep(seconds)
        rows = server.ask(
            "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%stand_3%'"
        )
        released = time.monotonic()
        hold.release()
        for thread in threads:
            thread.join(30)
    each = int(rows[0][0]) / 4 / seconds
    print(
        f"a waiter asks {each:.2f} times a second; the first was served after "
        f"{(min(served) - released) * 1e3:.1f} ms"
    )
    assert each <= 1.0


def test_a_waiter_is_woken_when_its_turn_comes(new_client: MakeClient, own_name: str) -> None:
    one, two = new_client(), new_client()
    # Given a waiter that has just begun to wait, and would ask again after a second
    asked = [asked_when_woken(one, two, own_name) for _ in range(5)]
    # Then it holds without having asked, at least once if the machine is slow
    assert min(asked) == 0
