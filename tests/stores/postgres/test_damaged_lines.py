"""A line whose rows were changed from outside; see ``tests/stores/sql/damage.py``, too."""

from __future__ import annotations

import contextlib

from holdfast import Client, LockLost
from tests.stores.postgres.conftest import Bench

#: The greatest bigint: it means that the line has no such claim.
NEVER = (1 << 63) - 1


def test_a_holder_outside_the_line_takes_no_other_hold_along(
    locks: Client, bench: Bench, own_name: str
) -> None:
    # Given a holder that is missing in the row of its line, as its ticket was changed from outside
    ours = locks.lock(own_name, ttl=60).acquire()
    bench.ask("UPDATE {claims} SET ticket = -1 WHERE name = %s", own_name.encode())
    bench.ask(
        "UPDATE {lines} SET holders = 0, used = 0, high = 0, low = %s, first = %s WHERE name = %s",
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
