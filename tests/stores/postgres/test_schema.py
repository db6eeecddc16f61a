"""The schema: made on demand or by an administrator, once, and with few rights."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator

import psycopg
import pytest

from holdfast import Client, ConfigError
from holdfast.cli import main
from holdfast.core.finding import Level
from holdfast.stores.postgres import ddl
from holdfast.stores.postgres.blocking import wire
from holdfast.stores.postgres.ddl import LOCK, script
from tests.servers.postgres_server import PostgresServer
from tests.stores.examined import worst
from tests.stores.postgres.conftest import NewServer
from tests.stores.sql.first import *  # noqa: F403

#: The functions by their versions: locks and helpers, queues, refresh guards. A changed function
#: needs a new version, and then a new fingerprint here: two releases share a schema.
FINGERPRINTS = {(4, 3, 2): "8ff36cfe3020b05f"}


def test_the_functions_match_the_fingerprint_of_their_versions() -> None:
    versions = ddl.VERSION, ddl.QUEUE_VERSION, ddl.REFRESH_VERSION
    functions = re.findall(r"(?s)CREATE OR REPLACE FUNCTION.*?\$\$.*?\$\$", script("holdfast"))
    assert len(functions) > 50
    found = hashlib.sha256("\n".join(functions).encode()).hexdigest()[:16]
    assert found == FINGERPRINTS[versions]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as one:
        yield one


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


def test_the_command_prints_and_makes_it_and_may_be_called_again(
    server: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = server.url_for(options="schema=by_command&create_schema=off")
    with pytest.raises(ConfigError, match="holdfast schema"):
        Client(url).lock("x").acquire()
    for said in ("made version 6", "is there already"):
        assert main(["schema", "postgres", "--apply", "--url", url]) == 0
        out, err = capsys.readouterr()
        assert (out, said in err) == ("", True)
    with Client(url) as client:
        client.lock("x").acquire().release()


def test_what_is_printed_may_be_carried_out_twice(
    server: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "postgres", "--url", "postgresql://nowhere/?schema=printed"]) == 0
    printed = capsys.readouterr().out
    assert printed == script("printed")
    with server.connect() as admin:
        for _ in range(2):
            admin.execute(printed)  # type: ignore[call-overload]
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


def test_other_stores_have_no_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--url", "memory://"]) == 78
    assert "needs no schema" in capsys.readouterr().err


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


def test_a_schema_from_before_queues_is_added_to(
    new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a schema as an earlier release made it, which is in use
    server = new_server()
    ddl.statements.cache_clear()
    with monkeypatch.context() as before:
        before.setattr(ddl, "_PARTS", ("tables", "line", "verbs", "look", "recovery", "rights"))
        with server.connect() as admin:
            admin.execute(ddl.script("holdfast"))  # type: ignore[call-overload]
    ddl.statements.cache_clear()
    fixed = server.url_for(options="create_schema=off")
    with Client(server.url) as client, Client(fixed) as other:
        hold = other.lock("x").acquire()
        old = worst(fixed)["schema"]
        assert (old.level, "queue_put_3" in old.text) == (Level.WARN, True)
        with pytest.raises(ConfigError, match="holdfast schema"):
            other.queue("q").put(1)
        # When a queue is used for the first time
        client.queue("q").put("x")
        # Then all clients can use it, and the hold is still valid
        job = other.queue("q").take(timeout=5)
        assert job is not None
        assert job.ack()
        hold.extend()
        assert hold.release()
    assert server.ask("SELECT version FROM holdfast.version ORDER BY 1") == [(2,), (3,), (4,), (6,)]


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


def test_the_minimal_rights_do_not_allow_reading_the_secrets(
    restricted: str,
) -> None:
    lacking = pytest.raises(psycopg.errors.InsufficientPrivilege)
    for table in ("claims", "refresh_duties"):
        with psycopg.connect(restricted) as plain, lacking:
            plain.execute(f"SELECT id FROM holdfast.{table}")


def test_a_missing_right_to_read_values_is_reported(
    restricted: str, server: PostgresServer
) -> None:
    assert not [one for one in worst(restricted).values() if one.level is Level.FAIL]
    server.ask("REVOKE SELECT ON holdfast.refresh_values FROM app")
    with Client(restricted) as client, pytest.raises(ConfigError, match="lacks a right"):
        client.guard("x", ttl=1).get(lambda: 1)
    found = worst(restricted)["rights"]
    assert (found.level, "GRANT SELECT" in found.remedy) == (Level.WARN, True)


def test_doctor_names_the_grant_that_a_user_without_rights_lacks(
    restricted: str, server: PostgresServer
) -> None:
    server.ask("CREATE ROLE nobody LOGIN")
    url = server.url_for("nobody")
    assert "GRANT" in next(one for one in worst(url).values() if one.level is Level.FAIL).remedy


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
        plain.execute("SELECT holdfast.leave_4('x', NULL, 0, 0, false, 0, 0, false)")
