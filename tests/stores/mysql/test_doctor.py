"""The findings of doctor on a MySQL or MariaDB."""

from __future__ import annotations

import pytest

from holdfast import Client, ConfigError
from holdfast.cli import main
from holdfast.core.finding import Level
from tests.servers.mariadb_server import MariadbServer
from tests.servers.process import until
from tests.stores.crowds import waiting
from tests.stores.examined import worst
from tests.stores.mysql.conftest import NewServer


def test_a_server_that_is_well(
    shared_mariadb: MariadbServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--url", shared_mariadb.url]) == 0
    text = capsys.readouterr().out
    assert "MariaDB 10" in text
    assert "acquire and release take" in text
    assert "sesame" not in text


def test_lines_that_say_something_else_than_their_claims_are_counted(
    new_server: NewServer,
) -> None:
    server = new_server()
    with Client(server.url) as client, Client(server.url) as other:
        # Given names with one holder and with two, and a name with a waiter
        client.lock("alone").acquire()
        for _ in range(2):
            client.semaphore("shared", 3).acquire()
        held = client.lock("waited for").acquire()
        with waiting(other, "waited for"):
            assert worst(server.url)["lines"].level is Level.OK
            # When rows are changed by hand, then each such name is counted
            changes = (
                "DELETE FROM holdfast_claims WHERE name = 'shared' LIMIT 1",
                (
                    "INSERT INTO holdfast_claims SELECT 'nobody', 1, id, 1, 1, 0, 1, 1, 1, 1, '',"
                    " '' FROM (SELECT id FROM holdfast_claims LIMIT 1) any"
                ),
                "UPDATE holdfast_lines SET waiters = 0 WHERE name = 'waited for'",
            )

            def counted(number: int) -> bool:
                with server.connect(autocommit=True) as one, one.cursor() as cursor:
                    cursor.execute(changes[number - 1])
                finding = worst(server.url)["lines"]
                return (finding.level, finding.text[0]) == (Level.WARN, str(number))

            assert counted(1)
            assert counted(2)
            # The waiter puts its line right when it next asks
            until(lambda: counted(3), "the third is counted", 10)
            client.break_("waited for", held.fence)


def test_settings_that_endanger_it_are_named(new_server: NewServer) -> None:
    server = new_server(
        "innodb_flush_log_at_trx_commit=0", "wait_timeout=20", "log_bin=on", "binlog_format=ROW"
    )
    seen = worst(server.url)
    assert seen["durability"].level is Level.WARN
    assert "the end of the server" in seen["durability"].text
    assert seen["wait_timeout"].level is Level.WARN
    assert "first use makes them" in seen["schema"].text
    assert "binlog" not in seen
    # And settings that make it unusable are failures
    server.ask("SET GLOBAL binlog_format = STATEMENT")
    assert worst(server.url)["binlog"].level is Level.FAIL
    server.ask("SET GLOBAL binlog_format = MIXED, GLOBAL read_only = 1")
    assert worst(server.url)["role"].level is Level.FAIL
    server.ask("SET GLOBAL read_only = 0")
    with server.connect(autocommit=True) as one, one.cursor() as cursor:
        cursor.execute("CREATE TABLE holdfast_lines (name INT) ENGINE=MyISAM")
    assert worst(server.url)["engine"].level is Level.FAIL


def test_a_statement_binary_log_is_an_error_that_names_the_remedy(
    new_server: NewServer,
) -> None:
    server = new_server("log_bin=on", "binlog_format=STATEMENT")
    wrong = pytest.raises(ConfigError, match="binlog_format to ROW or MIXED")
    with Client(server.url) as client, wrong:
        client.lock("x").acquire()
    # With any other format it works
    server.ask("SET GLOBAL binlog_format = MIXED")
    with Client(server.url) as client, client.lock("x", timeout=5):
        pass
