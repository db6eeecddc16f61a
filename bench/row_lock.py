"""Compares the time of a row lock with that of a lock written by hand, over the same connection.

``python -m bench.row_lock URL ...`` writes to these databases. The two ways take turns in short
stretches, so that other load of the machine affects both. Each lock is a transaction that is
committed. The lock by hand is ``SELECT ... FOR UPDATE`` and ``UPDATE`` of an existing row.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from holdfast.sql import create_sql, row_lock
from holdfast.sql.blocking.opening import opened

TARGET = 1.2
STRETCH, STRETCHES = 20, 60
TABLE = "holdfast_bench_rows"
_MAKE = "INSERT INTO holdfast_bench_rows VALUES ('hand:', 'x', 1, CURRENT_TIMESTAMP)"
_LOCK = "SELECT fence FROM holdfast_bench_rows WHERE kind = 'hand:' AND name = %s FOR UPDATE"
_RAISE = "UPDATE holdfast_bench_rows SET fence = %s WHERE kind = 'hand:' AND name = %s"


def by_hand(connection: Any) -> None:
    """Lock a row by hand, in the usual way."""
    cursor = connection.cursor()
    cursor.execute(_LOCK, ("x",))
    (fence,) = cursor.fetchone()
    cursor.execute(_RAISE, (int(fence) + 1, "x"))
    cursor.close()
    connection.commit()


def ours(connection: Any) -> None:
    """Lock a row with `row_lock`."""
    row_lock(connection, "ours:x", timeout=0, table=TABLE)
    connection.commit()


def stretch(connection: Any, way: Callable[[Any], None]) -> float:
    """Take `STRETCH` locks in one of the ways; return the mean microseconds of a lock."""
    begun = time.perf_counter()
    for _ in range(STRETCH):
        way(connection)
    return (time.perf_counter() - begun) / STRETCH * 1e6


def measure(url: str, stretches: int = STRETCHES) -> float:
    """Measure both ways in turns; print their times; return the ratio of row_lock to by hand."""
    with closing(opened(url)) as connection:
        cursor = connection.cursor()
        for statement in (
            f"DROP TABLE IF EXISTS {TABLE}",
            create_sql(url.partition(":")[0], TABLE),
            _MAKE,
        ):
            cursor.execute(statement)
        connection.commit()
        for way in (by_hand, ours):
            stretch(connection, way)
        pairs = [
            (stretch(connection, by_hand), stretch(connection, ours)) for _ in range(stretches)
        ]
        cursor.execute(f"DROP TABLE {TABLE}")
        connection.commit()
    hand, mine = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(two / one for one, two in pairs)
    words = "reached" if ratio <= TARGET else "missed"
    print(
        f"{url.partition(':')[0]}: by hand {hand:.0f} µs, row_lock {mine:.0f} µs, "
        f"ratio {ratio:.2f} (target {TARGET} {words}); {stretches} times {STRETCH} each in turns"
    )
    return ratio


def main(urls: Sequence[str]) -> int:
    """Return 0 if all databases reach the target, 1 if one doesn't, 64 without a database."""
    if not urls:
        print("usage: python -m bench.row_lock URL ...", file=sys.stderr)
        return 64
    return int(any(ratio > TARGET for ratio in [measure(url) for url in urls]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
