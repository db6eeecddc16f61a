"""A line with many dead waiters: see ``tests/stores/dead.py``."""

from __future__ import annotations

import pytest

from tests.servers.mariadb_server import MariadbServer
from tests.stores.dead import Line, test_the_living_are_served_behind_thousands_of_dead

__all__ = ["test_the_living_are_served_behind_thousands_of_dead"]


@pytest.fixture
def dying(shared_mariadb: MariadbServer) -> Line:
    """The tables of the server that all tests share."""
    server = shared_mariadb
    head = ("holdfast.holdfast_lines", "first")
    return Line(server.url, server.ask, "holdfast.holdfast_claims", head, steps=500)
