"""Each row in PostgreSQL is damaged, one at a time: see ``tests/stores/damage.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.servers.postgres_server import PostgresServer
from tests.stores.damage import (
    Damaged,
    test_what_is_damaged_is_refused_clearly_or_healed_in_time,
    test_without_damage_the_scenario_plays_to_its_end,
)
from tests.stores.tables import ITEMS, TablesGround, postgres_tables

__all__ = [
    "test_what_is_damaged_is_refused_clearly_or_healed_in_time",
    "test_without_damage_the_scenario_plays_to_its_end",
]


@pytest.fixture
def damaged(new_postgres: Callable[..., PostgresServer]) -> Damaged:
    """A separate server for the test."""
    server = new_postgres("max_connections = 300")

    def ask(text: str, *values: object) -> list[tuple[Any, ...]]:
        return server.ask(text, *values, options="-c lock_timeout=2s")

    ground = TablesGround(server.url, ask, "holdfast", postgres_tables())
    return Damaged(ground, items=ITEMS, usual=3, at_once=6)
