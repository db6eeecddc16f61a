"""What a row lock costs beside one that is written by hand, over the same connection.

``python -m bench.row_lock URL ...``, with databases that may be written to. Both take turns in
short stretches, each in a transaction that is committed, so whatever else the machine does, it does
to both. The one by hand is ``SELECT ... FOR UPDATE`` and ``UPDATE`` of a row that is there.
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
    """What everybody writes."""
    cursor = connection.cursor()
    cursor.execute(_LOCK, ("x",))
    (fence,) = cursor.fetchone()
    cursor.execute(_RAISE, (int(fence) + 1, "x"))
    cursor.close()
    connection.commit()


def ours(connection: Any) -> None:
    """The same with a row lock."""
    row_lock(connection, "ours:x", timeout=0, table=TABLE)
    connection.commit()


def stretch(connection: Any, way: Callable[[Any], None]) -> float:
    """Microseconds that one takes, in a stretch of them."""
    begun = time.perf_counter()
    for _ in range(STRETCH):
        way(connection)
    return (time.perf_counter() - begun) / STRETCH * 1e6


def measure(url: str, stretches: int = STRETCHES) -> float:
    """Both in turns; says what they take, and gives the ratio."""
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
    """0 if all reach the target, 1 if one doesn't, 64 without databases."""
    if not urls:
        print("usage: python -m bench.row_lock URL ...", file=sys.stderr)
        return 64
    return int(any(ratio > TARGET for ratio in [measure(url) for url in urls]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
