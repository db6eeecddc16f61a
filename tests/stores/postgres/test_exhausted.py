"""No connection is left (``max_connections``): see ``tests/stores/exhausted.py``."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.servers.postgres_server import PostgresServer
from tests.stores.exhausted import (
    Crowd,
    Crowded,
    test_after_there_was_none_at_any_step_of_a_lock_all_works_again,
    test_after_there_was_none_at_any_verb_of_queues_and_guards_all_works_again,
    test_the_error_names_the_exhausted_limit,
)

__all__ = [
    "test_after_there_was_none_at_any_step_of_a_lock_all_works_again",
    "test_after_there_was_none_at_any_verb_of_queues_and_guards_all_works_again",
    "test_the_error_names_the_exhausted_limit",
]


@pytest.fixture
def crowded(new_postgres: Callable[..., PostgresServer]) -> Crowded:
    """A server for a dozen connections, and a crowd that takes all of them."""
    server = new_postgres("max_connections = 16")
    server.ask("CREATE ROLE app LOGIN")
    server.ask("CREATE ROLE crowd LOGIN")
    server.ask("GRANT CREATE ON DATABASE postgres TO app")

    def kick() -> None:
        server.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")

    def connect() -> psycopg.Connection[object]:
        return server.connect(user="crowd")

    crowd = Crowd(connect, psycopg.OperationalError, kick)
    return Crowded(server.url_for("app", options="pool=2"), crowd)
