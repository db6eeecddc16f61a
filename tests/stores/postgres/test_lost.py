"""Requests and replies that are lost, late or cut off: see ``tests/stores/lost.py``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.model import LineRecord
from holdfast.testing.faults import HOLD_REQUEST, Proxy
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.stores import lost
from tests.stores.lost import *  # noqa: F403
from tests.torture.scale import times

Look = Callable[[str], LineRecord | None]
#: Each request contains the name of its prepared statement.
JOIN, LEAVE, KEEP, STAND, JOIN_FREE, LEAVE_ALL = (
    f"holdfast_{verb}\0".encode()
    for verb in ("join", "leave", "keep", "stand", "join_free", "leave_all")
)


@pytest.fixture
def words() -> lost.Words:
    return lost.Words(JOIN, LEAVE, KEEP, STAND, (STAND,), JOIN_FREE, LEAVE_ALL)


def test_a_late_copy_of_a_join_finds_a_tombstone(
    by_proxy: Client, proxy: Proxy, own_name: str, line: Look, shared_postgres: PostgresServer
) -> None:
    def tombs() -> set[str]:
        return {str(row) for row in shared_postgres.ask("SELECT id FROM holdfast.tombs")}

    for number in range(times(50, 5)):
        name = f"{own_name}:{number}"
        # Given a join that is on its way while its client gives up and withdraws the claim
        before = tombs()
        late = proxy.arm(JOIN, HOLD_REQUEST)
        with pytest.raises(StoreUnavailable):
            by_proxy.lock(name).acquire(timeout=0.05)
        until(lambda: tombs() - before, "it is withdrawn")  # noqa: B023
        # When the join arrives late
        late.let_go()
        until(lambda: proxy.connections <= 2, "its connection has ended")
        # Then no claim holds
        until(lambda: line(name) is None, "nobody is left")  # noqa: B023
