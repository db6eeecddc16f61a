"""The schema: made on demand or by an administrator, once, and with few rights."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from holdfast import AsyncClient, Client, ConfigError
from holdfast.core.finding import Level
from holdfast.stores.postgres import examine
from holdfast.stores.postgres.blocking import wire
from holdfast.stores.postgres.ddl import LOCK, script
from holdfast.url import find
from tests.servers.postgres_server import PostgresServer

NewServer = Callable[..., PostgresServer]


@pytest.fixture(scope="module")
def server() -> object:
    with PostgresServer() as one:
        yield one


def holdfast(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_many_first_clients_make_the_schema_once(server: PostgresServer) -> None:
    url = server.url_for(options="schema=at_once")
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        try:
            with Client(url) as client:
                start.wait()
                client.lock(f"x{number % 2}", timeout=20).acquire().release()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert server.ask("SELECT version FROM at_once.version ORDER BY 1") == [(2,), (3,), (5,)]


def test_a_client_that_waited_too_long_for_its_making_works_later(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "SESSION_MS", 300)
    with server.connect() as other, Client(server.url_for(options="schema=late")) as client:
        # Given a session that makes the schema for longer than a client waits for the server's lock
        other.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        over = threading.Timer(1.0, other.execute, ["SELECT pg_advisory_unlock_all()"])
        over.start()
        # Then the client asks again, on a connection without a failed transaction
        client.lock("x", timeout=20).acquire().release()
        over.join()


def test_the_command_prints_and_makes_it_and_may_be_called_again(server: PostgresServer) -> None:
    url = server.url_for(options="schema=by_command&create_schema=off")
    with pytest.raises(ConfigError, match="holdfast schema"):
        Client(url).lock("x").acquire()
    for said in ("made version 5", "is there already"):
        done = holdfast("schema", "postgres", "--apply", "--url", url)
        assert (done.returncode, done.stdout) == (0, "")
        assert said in done.stderr
    with Client(url) as client:
        client.lock("x").acquire().release()


def test_what_is_printed_may_be_carried_out_twice(server: PostgresServer) -> None:
    printed = holdfast("schema", "postgres", "--url", "postgresql://nowhere/?schema=printed")
    assert printed.returncode == 0
    assert printed.stdout == script("printed")
    with server.connect() as admin:
        for _ in range(2):
            admin.execute(printed.stdout)  # type: ignore[call-overload]
    url = server.url_for(options="schema=printed&create_schema=off")
    with Client(url) as client:
        client.lock("x").acquire().release()


def test_every_function_carries_a_version_in_its_name(server: PostgresServer) -> None:
    # Otherwise an older release that makes its schema again would replace functions of a newer one
    with Client(server.url_for(options="schema=versioned")) as client:
        client.lock("x").acquire().release()
    names = {
        name
        for (name,) in server.ask(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'versioned'::regnamespace"
        )
    }
    assert len(names) > 50
    assert {name for name in names if not re.search(r"_\d+$", name)} == set()


def test_other_stores_have_no_schema() -> None:
    done = holdfast("schema", "--url", "memory://")
    assert done.returncode == 78
    assert "needs no schema" in done.stderr


def test_a_shared_schema_keeps_the_objects_of_others_unchanged(
    server: PostgresServer,
) -> None:
    # Given a function of another user, with a name like holdfast's own, in a schema that holdfast
    # gets
    server.ask('CREATE SCHEMA "user"')
    server.ask("""CREATE FUNCTION "user".theirs_2() RETURNS int LANGUAGE sql AS 'SELECT 1'""")
    server.ask("CREATE ROLE tenant LOGIN")
    server.ask('GRANT USAGE, CREATE ON SCHEMA "user" TO tenant')
    # When a user that may not make schemas makes holdfast's tables there
    with Client(server.url_for("tenant", options="schema=user")) as client:
        client.lock("x").acquire().release()
    # Then the other user's function is unchanged
    rows = server.ask("SELECT prosecdef, proacl FROM pg_proc WHERE proname = 'theirs_2'")
    assert rows == [(False, None)]


def test_two_schemas_dont_see_each_other(server: PostgresServer) -> None:
    with (
        Client(server.url_for(options="schema=one")) as one,
        Client(server.url_for(options="schema=two")) as two,
        one.lock("x"),
    ):
        assert two.lock("x").acquire(timeout=20)


# -- rights -------------------------------------------------------------------------------------


@pytest.fixture
def restricted(server: PostgresServer) -> str:
    """The URL of a user that may call the functions and read values, and has no other rights."""
    server.ask(
        "DO $$ BEGIN IF to_regrole('app') IS NULL THEN CREATE ROLE app LOGIN; END IF; END $$"
    )
    server.ask("REVOKE ALL ON SCHEMA public FROM PUBLIC")
    with Client(server.url) as owner:
        owner.lock("x").acquire().release()
    server.ask("GRANT USAGE ON SCHEMA holdfast TO app")
    server.ask("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA holdfast TO app")
    server.ask("GRANT SELECT ON holdfast.refresh_values TO app")
    return server.url_for("app")


def test_the_least_rights_suffice_for_everything(
    restricted: str, server: PostgresServer, own_name: str
) -> None:
    with Client(restricted) as one, Client(restricted) as two:
        with one.semaphore(own_name, permits=2).acquire() as hold:
            hold.extend()
            assert one.semaphore(own_name, permits=2).resize(3) == 2
            assert two.inspect(own_name)[0].holders
        with one.all(f"{own_name}:a", f"{own_name}:b"):
            pass
        queue = one.queue(own_name, max_attempts=1, rate=100)
        queue.put_many([1, 2], group="g")
        job = two.queue(own_name).take(timeout=5)
        assert job is not None
        assert job.release()
        with two.queue(own_name, ttl=4).take(timeout=5) as job:  # type: ignore[union-attr]
            time.sleep(1.6)  # it is renewed meanwhile
        job = queue.take(timeout=5)
        assert job is not None
        assert job.retry()
        assert (queue.retry_dead(), queue.stats().waiting, queue.purge(), queue.jobs()) == (
            1,
            1,
            1,
            [],
        )
        hold = one.lock(own_name).acquire()
        served: list[int] = []
        waiter = threading.Thread(
            target=lambda: served.append(two.lock(own_name).acquire(timeout=20).fence)
        )
        waiter.start()
        token = hold.detach()
        adopted = two.adopt(token)
        assert adopted.release()
        waiter.join(30)
        assert served[0] > adopted.fence
        guard = one.guard(own_name, ttl=60, lease=3)

        def compute() -> int:
            time.sleep(1.2)  # its duty is renewed meanwhile
            return 1

        assert guard.get(compute) == 1
        assert two.guard(own_name, ttl=60).get_many(["", "b"], len) == {"": 1, "b": 1}
        assert guard.invalidate("", "b") == 2
        assert (guard.inspect().version, guard.stats().computes) == (0, 1)

    async def main() -> None:
        async with AsyncClient(restricted) as client, client.lock(f"{own_name}:aio"):
            pass

    asyncio.run(main())
    _, url = find(restricted)
    assert not [one for one in examine(url) if one.level is Level.FAIL]


def test_the_minimal_rights_do_not_allow_reading_the_secrets(
    restricted: str, server: PostgresServer
) -> None:
    with psycopg.connect(restricted) as plain, pytest.raises(psycopg.errors.InsufficientPrivilege):
        plain.execute("SELECT id FROM holdfast.claims")
    with psycopg.connect(restricted) as plain, pytest.raises(psycopg.errors.InsufficientPrivilege):
        plain.execute("SELECT id FROM holdfast.refresh_duties")


def test_a_missing_right_to_read_values_is_reported(
    restricted: str, server: PostgresServer
) -> None:
    server.ask("REVOKE SELECT ON holdfast.refresh_values FROM app")
    with Client(restricted) as client, pytest.raises(ConfigError, match="lacks a right"):
        client.guard("x", ttl=1).get(lambda: 1)
    found = [one for one in examine(find(restricted)[1]) if one.subject == "rights"]
    assert [(one.level, "GRANT SELECT" in one.remedy) for one in found] == [(Level.WARN, True)]


def test_a_user_without_rights_gets_an_error_with_the_grant(
    restricted: str, server: PostgresServer
) -> None:
    server.ask(
        "DO $$ BEGIN IF to_regrole('nobody') IS NULL THEN CREATE ROLE nobody LOGIN; END IF; END $$"
    )
    url = server.url_for("nobody")
    with Client(url) as client, pytest.raises(ConfigError, match="lacks a right"):
        client.lock("x").acquire()
    found = [one for one in examine(find(url)[1]) if one.level is Level.FAIL]
    assert found
    assert "GRANT" in found[0].remedy


def test_a_server_with_another_isolation_is_used_with_read_committed(
    server: PostgresServer,
) -> None:
    server.ask("DROP ROLE IF EXISTS strict")
    server.ask("CREATE ROLE strict LOGIN SUPERUSER")
    server.ask("ALTER ROLE strict SET default_transaction_isolation = 'serializable'")
    with Client(server.url_for("strict")) as client:
        client.lock("x").acquire().release()
    with (
        server.connect(user="strict") as plain,
        pytest.raises(psycopg.Error, match="READ COMMITTED"),
    ):
        plain.execute("SELECT holdfast.leave_3('x', NULL, 0, 0, false, 0, 0, false)")
