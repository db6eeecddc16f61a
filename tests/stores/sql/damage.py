"""Rows are changed from outside; the tests of a store import these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast import Client
from holdfast.core.model import Kind
from tests.servers.clock import Clock
from tests.stores.damaged_lines import Lines, no_claim_holds_next_to_another
from tests.stores.pauses import a_damaged_pause_ends_with_the_failure
from tests.stores.rows import RowsGround
from tests.stores.sql.bench import Bench
from tests.torture.scale import seed_of, times

LONGER = "UPDATE {refresh_duties} SET pause = pause + 1000000000000 WHERE guard = %s"


def test_a_damaged_pause_after_a_failure_ends_with_the_failure(
    bench: Bench, locks: Client, own_name: str
) -> None:
    a_damaged_pause_ends_with_the_failure(
        locks, own_name, lambda: bench.ask(LONGER, own_name.encode())
    )


def test_clients_that_come_after_damage_exclude_each_other(
    bench: Bench, new_server: Callable[..., Any], server_clock: Clock
) -> None:
    with server_clock.worn():
        server = new_server()
    schema, _, prefix = bench.tables.partition(".")
    ground = RowsGround(server.url, server.ask, schema, f"{prefix}lines", f"{prefix}claims")
    seed = seed_of("damaged lines")
    seeds = iter(range(seed, seed + times(5000, 35)))
    no_claim_holds_next_to_another(Lines(ground, server_clock, tuple(Kind)[:3]), seeds)
