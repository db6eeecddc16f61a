"""The PostgreSQL of the tests starts, crashes, restarts, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable

from tests.servers.postgres_server import PostgresServer


def test_what_was_committed_outlives_a_crash(new_postgres: Callable[..., PostgresServer]) -> None:
    server = new_postgres(fsync=True)
    server.ask("create table kept (what text)")
    server.ask("insert into kept values ('this')")
    server.crash()
    assert server.ask("select what from kept") == [("this",)]


def test_it_is_reached_by_its_socket_and_its_settings_count(
    new_postgres: Callable[..., PostgresServer],
) -> None:
    server = new_postgres("max_connections = 17")
    assert server.ask("show max_connections", host=str(server.folder)) == [("17",)]


def test_nothing_is_left_of_it(new_postgres: Callable[..., PostgresServer]) -> None:
    server = new_postgres()
    server.restart()
    server.close()
    assert not server.runs
    assert not server.folder.exists()
