"""A line with many dead waiters: see ``tests/stores/dead.py``."""

from __future__ import annotations

import pytest

from tests.servers.postgres_server import PostgresServer
from tests.stores.dead import Line, test_the_living_are_served_behind_thousands_of_dead

__all__ = ["test_the_living_are_served_behind_thousands_of_dead"]


@pytest.fixture
def dying(shared_postgres: PostgresServer) -> Line:
    """The tables of the server that all tests share."""
    server = shared_postgres
    # One call removes 300 dead claims, or 600 if it settles the line twice.
    head = ("holdfast.lines", "headexp")
    return Line(server.url, server.ask, "holdfast.claims", head, steps=600)
