"""The findings of `holdfast doctor` on a PostgreSQL: each part, and the remedy."""

from __future__ import annotations

import contextlib
import json

import pytest

from holdfast import Client
from holdfast.cli import main
from holdfast.core.finding import Level
from holdfast.stores.postgres.blocking import doctor
from tests.servers.process import until
from tests.stores.examined import worst
from tests.stores.postgres.conftest import NewServer


def test_the_doctor_command_reports_on_every_part(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(url) as client:
        client.lock("doctor").acquire().release()
    monkeypatch.setenv("PGAPPNAME", "doctor")
    code = main(["doctor", "--json", "--url", url])
    found = {one["subject"]: one for one in json.loads(capsys.readouterr().out)}
    assert code == 0, found
    assert set(found) >= {
        "server", "pooler", "latency", "clock", "wake-ups", "schema", "rights", "durability",
        "timeouts", "connections", "snapshots", "test lock", "hand-off",
    }  # fmt: skip
    assert all(one["remedy"] for one in found.values() if one["level"] != "ok")


def test_lines_that_say_something_else_than_their_claims_are_counted(
    new_server: NewServer,
) -> None:
    server = new_server()
    with Client(server.url) as client:
        client.lock("held").acquire()
        for _ in range(2):
            client.semaphore("shared", 3).acquire()
        assert worst(server.url)["lines"].level is Level.OK
        # When rows are changed by hand, then each such name is counted
        for number, change in enumerate(
            (
                "DELETE FROM holdfast.claims WHERE name = 'held'",
                "UPDATE holdfast.lines SET waiters = 7 WHERE name = 'shared'",
            ),
            1,
        ):
            server.ask(change)
            finding = worst(server.url)["lines"]
            assert (finding.level, finding.text[0]) == (Level.WARN, str(number)), finding


def test_a_filling_notify_queue_is_reported_without_rights_on_the_tables(
    new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a user with the least rights
    server = new_server()
    with Client(server.url) as client:
        client.lock("x").acquire().release()
    server.ask("CREATE ROLE app LOGIN")
    server.ask("GRANT USAGE ON SCHEMA holdfast TO app")
    server.ask("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA holdfast TO app")
    url = server.url_for("app")
    assert "notifications" not in worst(url)
    # When more of the queue is used than doctor accepts
    monkeypatch.setattr(doctor, "NOTIFY_FULL", 0)
    found = worst(url)
    # Then doctor reports it, though it cannot read the lines
    assert "lines" not in found
    assert found["notifications"].level is Level.WARN
    assert "pg_stat_activity" in found["notifications"].remedy


def test_unsuitable_settings_and_forgotten_transactions_are_reported(
    new_server: NewServer,
) -> None:
    server = new_server("statement_timeout = 700", "autovacuum = off", "max_connections = 12")
    with Client(server.url) as client:
        client.lock("x").acquire().release()
    with contextlib.ExitStack() as crowd:
        for _ in range(8):
            old = crowd.enter_context(server.connect())
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1")
        found = worst(server.url_for(options="durable=relaxed&recovery=off&pool=3"))
    for subject in ("timeouts", "autovacuum", "durability", "connections"):
        assert found[subject].level is Level.WARN, subject
        assert found[subject].remedy, subject
    assert "open transaction" in found["snapshots"].text


@pytest.mark.usual(1)
@pytest.mark.parametrize("synchronous", [False, True])
def test_synchronous_and_asynchronous_standbys_are_distinguished(
    synchronous: bool, new_server: NewServer
) -> None:
    server = new_server(*(["synchronous_standby_names = '*'"] if synchronous else []))
    new_server(standby_of=server)
    until(lambda: server.ask("SELECT 1 FROM pg_stat_replication"), "it follows")
    until(
        lambda: (worst(server.url)["standbys"].level is Level.OK) is synchronous,
        "doctor names it",
    )


def test_a_standby_can_not_be_used(new_server: NewServer) -> None:
    server = new_server()
    standby = new_server(standby_of=server)
    with pytest.raises(Exception, match="it is a standby"):
        worst(standby.url)


def test_a_missing_schema_is_a_failure_only_if_it_is_not_created(new_server: NewServer) -> None:
    server = new_server()
    assert worst(server.url)["schema"].level is Level.OK
    assert worst(server.url_for(options="create_schema=off"))["schema"].level is Level.FAIL
