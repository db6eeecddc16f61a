"""No connection is left (``max_connections``): see ``tests/stores/exhausted.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql
import pytest

from tests.servers.mariadb_server import MariadbServer
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
def crowded(new_mariadb: Callable[..., MariadbServer]) -> Crowded:
    """A server for a dozen connections, and a crowd that takes all of them."""
    server = new_mariadb("max_connections=14", grants=("CREATE USER IF NOT EXISTS crowd@'%'",))

    def kick() -> None:
        server.ask("KILL USER 'app'")  # one by one, a session might end between look and KILL

    def connect() -> Any:
        return pymysql.connect(host=server.host, port=server.port, user="crowd")

    crowd = Crowd(connect, pymysql.OperationalError, kick)
    return Crowded(f"{server.url}?pool=2", crowd)
