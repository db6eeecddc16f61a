"""Rows of the tables that were changed from outside are repaired by the next verbs."""

from __future__ import annotations

import contextlib
import time
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from holdfast import Client, ConfigError, HoldfastError, LockLost, NotHeld
from holdfast.stores.postgres import ddl
from holdfast.testing.faces import FACES, Face
from tests.servers.postgres_server import PostgresServer
from tests.stores.postgres.conftest import NewServer
from tests.stores.sql.damage import *  # noqa: F403
from tests.stores.sql.fixtures import MakeClient

#: The values that a column of each type is set to.
VALUES: dict[str, tuple[str, ...]] = {
    "bigint": ("0", "-1", "9223372036854775807", "-9223372036854775808"),
    "integer": ("0", "-1", "2147483647", "-2147483648"),
    "boolean": ("NOT {column}",),
    "text": ("''", "'nonsense'"),
    "bytea": ("''", "'\\xff'"),
    "uuid": ("gen_random_uuid()",),
}


def damages(server: PostgresServer, table: str) -> list[str]:
    """All damages of a row: it is removed, and each column is set to each value."""
    rows = server.ask(
        "SELECT column_name, data_type FROM information_schema.columns"
        " WHERE table_schema = 'holdfast' AND table_name = %s AND column_name <> 'name'"
        " ORDER BY ordinal_position",
        table,
    )
    found = [f"DELETE FROM holdfast.{table}"]
    found += [
        f"UPDATE holdfast.{table} SET {column} = {value.format(column=column)}"
        for column, kind in rows
        for value in VALUES.get(str(kind), ())
    ]
    return found


def works(client: Client, name: str, within: float = 15.0) -> None:
    """Check that the name can be acquired again, and that the lock works."""
    with client.lock(name, timeout=within, ttl=2) as hold:
        hold.check()
        assert client.lock(name).acquire(blocking=False) is None
    with client.lock(name, timeout=within):
        pass


@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
@pytest.mark.parametrize("table", ["lines", "claims"])
def test_a_line_whose_rows_are_changed_works_again(
    new_client: MakeClient, shared_postgres: PostgresServer, own_name: str, table: str, held: bool
) -> None:
    client = new_client(label="ours")
    client.lock(own_name).acquire().release()
    many = 0
    for number, damage in enumerate(damages(shared_postgres, table)):
        name = f"{own_name}:{number}"
        # Given a name that is held, or was held before
        hold = client.lock(name, ttl=1, auto_renew=False).acquire()
        if not held:
            hold.release()
        # When one of its rows is changed
        shared_postgres.ask(f"{damage} WHERE name = %s", name.encode())
        client.inspect(name)
        if held and table == "lines":
            # Then no other client gets the held name
            found = client.lock(name).acquire(blocking=False)
            assert found is None or hold.lost is not None, damage
            if found is not None:  # the machine stood still for the lease
                found.release()
        with contextlib.suppress(NotHeld, LockLost):
            hold.release()
        # Then it can be acquired within the lease
        try:
            works(client, name)
        except Exception as wrong:
            raise AssertionError(damage) from wrong
        many += 1
    assert many > 10


def test_a_removed_claim_frees_its_name_at_once(
    new_client: MakeClient, shared_postgres: PostgresServer, own_name: str
) -> None:
    client, other = new_client(), new_client()
    client.lock(own_name, ttl=60).acquire()
    shared_postgres.ask("DELETE FROM holdfast.claims WHERE name = %s", own_name.encode())
    hold = other.lock(own_name).acquire(blocking=False)
    assert hold is not None
    assert hold.release()


QUEUE_ROWS = ("jobs", "ready", "loans", "groups")


@pytest.mark.parametrize("group", ["g", None], ids=["group", "plain"])
@pytest.mark.parametrize("table", QUEUE_ROWS)
def test_a_removed_row_of_a_queue_stalls_nothing(
    new_client: MakeClient,
    shared_postgres: PostgresServer,
    own_name: str,
    table: str,
    group: str | None,
) -> None:
    client = new_client()
    queue = client.queue(own_name, ttl=2)
    more: dict[str, Any] = {"group": group} if group else {}
    for number in range(3):
        queue.put(number, **more)
    if table == "loans":
        assert queue.take(timeout=5) is not None
    # When one row is removed, and another job is put
    shared_postgres.ask(
        f"DELETE FROM holdfast.{table} WHERE ctid = (SELECT ctid FROM holdfast.{table}"
        " WHERE queue = %s LIMIT 1)",
        own_name.encode(),
    )
    queue.put("new", **more)
    # Then all jobs that still exist are delivered
    found: list[object] = []
    wanted = [1, 2, "new"] if table == "jobs" else [0, 1, 2, "new"]
    while len(found) < len(wanted):
        job = queue.take(timeout=25)
        if job is None:
            break
        found.append(job.payload)
        assert job.ack()
    assert sorted(map(str, found)) == sorted(map(str, wanted))


def with_mallory(new_server: NewServer) -> PostgresServer:
    """A server with another user that can make schemas."""
    server = new_server()
    server.ask("CREATE ROLE mallory LOGIN")
    server.ask("GRANT CREATE ON DATABASE postgres TO mallory")
    return server


def test_a_schema_made_by_another_user_is_refused(new_server: NewServer) -> None:
    server = with_mallory(new_server)
    with server.connect(user="mallory") as theirs:
        theirs.execute("CREATE SCHEMA holdfast")
        theirs.execute("CREATE TABLE holdfast.tombs (id uuid PRIMARY KEY)")
    with Client(server.url) as client, pytest.raises(ConfigError, match="mallory"):
        client.lock("x").acquire()
    # A user that the URL names is trusted
    server.ask("DROP TABLE holdfast.tombs")
    with Client(server.url_for(options="trust=mallory")) as client:
        client.lock("x").acquire().release()


def test_objects_another_user_makes_during_the_setup_are_refused(
    new_server: NewServer,
) -> None:
    server = with_mallory(new_server)
    look, made = ddl.statements("holdfast").split("-- The tables.", 1)
    with server.connect() as ours, ours.transaction(force_rollback=True):
        # Given a setup that has found that nothing exists yet
        ours.execute(look.encode())
        with server.connect(user="mallory") as theirs:
            theirs.execute("CREATE SCHEMA holdfast")
        # Then a schema that mallory made at that moment is refused, too
        with pytest.raises(psycopg.Error, match="mallory"):
            ours.execute(f"-- {made}".encode())


#: A function that would misuse the rights of its caller.
TRAP = """
CREATE FUNCTION evil.join_4(bytea, uuid, text, integer, integer, bigint, bigint, text, bytea, bytea,
    bigint, boolean, integer DEFAULT 0) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    ALTER ROLE mallory SUPERUSER;
    RETURN 'H 17 30000000';
END $$
"""


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_superuser_calls_no_function_made_by_another_user(
    new_server: NewServer, face: Face
) -> None:
    server = with_mallory(new_server)
    with server.connect(user="mallory") as theirs:
        theirs.execute("CREATE SCHEMA evil")
        theirs.execute(TRAP)

    async def acquire() -> None:
        async with face.client(server.url_for(options="schema=evil")) as client:
            await client.lock("x").acquire()

    with pytest.raises(ConfigError, match="mallory"):
        face.run(acquire, 60)
    assert server.ask("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'") == [(False,)]


def test_strict_recovery_opens_its_window_after_any_crash(new_server: NewServer) -> None:
    server = new_server(fsync=True)
    url = server.url_for(options="recovery=strict&grace=4")
    with Client(url) as client:
        client.lock("x").acquire().release()
    server.crash()
    with Client(url) as client, pytest.raises(HoldfastError, match="grants nothing"):
        client.lock("x").acquire(timeout=0.3)


def test_a_holder_that_weighs_less_than_nothing_makes_no_room_for_two(
    locks: Client, shared_postgres: PostgresServer, own_name: str
) -> None:
    locks.lock(f"{own_name}:warm").acquire().release()
    name, ttl, patience = own_name.encode(), 2_000_000, 3_000_000
    holder, first, second = ids = [uuid4() for _ in range(3)]
    joining = "SELECT holdfast.join_4(%s, %s, 'lock', 1, 1, %s, %s, '', 'us', '', 0, false)"
    standing = "SELECT holdfast.stand_4(%s, %s, %s, %s, '', 0, NULL, 'us', 0, false)"
    # Given a holder that has renewed, so that the line is examined before the lease has expired
    shared_postgres.ask(joining, name, holder, ttl, -patience)
    time.sleep(1)
    shared_postgres.ask("SELECT holdfast.renew_4(%s, %s, %s, false)", [name], [holder], [ttl])
    # When its weight is changed from outside, and two waiters come after that
    shared_postgres.ask("UPDATE holdfast.claims SET weight = -1 WHERE name = %s", name)
    for one in (first, second):
        ((said,),) = shared_postgres.ask(joining, name, one, ttl, patience)
        assert said.startswith("W "), said
    time.sleep(1.1)
    # Then the first request of a waiter grants only one of them
    said = [shared_postgres.ask(standing, name, one, ttl, patience)[0][0][:1] for one in ids[1:]]
    assert said == ["H", "W"]
