"""A line whose rows were changed from outside: see ``tests/stores/damaged_lines.py``."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.model import Kind
from tests.servers.clock import Clock
from tests.servers.mariadb_server import DATABASE, MariadbServer
from tests.stores.damaged_lines import Lines, nobody_holds_beside_another
from tests.stores.rows import RowsGround
from tests.torture.scale import seed_of, times


def test_clients_that_come_after_damage_exclude_each_other(
    new_mariadb: Callable[..., MariadbServer], server_clock: Clock
) -> None:
    with server_clock.worn():
        server = new_mariadb()
    ground = RowsGround(server.url, server.ask, DATABASE, "holdfast_lines", "holdfast_claims")
    seed = seed_of("damaged lines")
    seeds = iter(range(seed, seed + times(5000, 20)))
    nobody_holds_beside_another(Lines(ground, server_clock, tuple(Kind)[:3]), seeds)
