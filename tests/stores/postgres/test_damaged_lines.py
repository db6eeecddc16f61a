"""A line whose rows were changed from outside: see ``tests/stores/damaged_lines.py``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from holdfast import Client, LockLost
from holdfast.core.model import Kind
from tests.servers.clock import Clock
from tests.servers.postgres_server import PostgresServer
from tests.stores.damaged_lines import Lines, nobody_holds_beside_another
from tests.stores.rows import RowsGround
from tests.torture.scale import seed_of, times

#: The greatest bigint: it means that the line has no such claim.
NEVER = (1 << 63) - 1


def test_clients_that_come_after_damage_exclude_each_other(
    new_postgres: Callable[..., PostgresServer], server_clock: Clock
) -> None:
    with server_clock.worn():
        server = new_postgres()
    lines = Lines(RowsGround(server.url, server.ask, "holdfast"), server_clock, tuple(Kind)[:3])
    seed = seed_of("damaged lines")
    nobody_holds_beside_another(lines, iter(range(seed, seed + times(5000, 50))))


def test_a_holder_outside_the_line_takes_no_other_hold_along(
    locks: Client, shared_postgres: PostgresServer, own_name: str
) -> None:
    # Given a holder that is missing in the row of its line, as its ticket was changed from outside
    ours = locks.lock(own_name, ttl=60).acquire()
    shared_postgres.ask("UPDATE holdfast.claims SET ticket = -1 WHERE name = %s", own_name.encode())
    shared_postgres.ask(
        "UPDATE holdfast.lines SET holders = 0, used = 0, high = 0, low = %s, first = %s"
        " WHERE name = %s",
        *(NEVER, NEVER, own_name.encode()),
    )
    # When another client acquires the lock, and the first holder releases
    other = locks.lock(own_name, ttl=60).acquire(blocking=False)
    assert other is not None
    with contextlib.suppress(LockLost):
        ours.release()
    # Then no third claim holds at the same time
    assert locks.lock(own_name).acquire(blocking=False) is None
    other.check()
    other.release()
