"""The logic of `row_lock`, the same for threads and asyncio, and of `purge`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..errors import ConfigError, NotAcquired, StaleSnapshot
from .model import Batch, Beside, Dialect, Ended, Late, Row, RowLock, Teller, code
from .table import ensure
from .words import REMOVED, busy, elsewhere, no_answer, no_right_to_purge, stale

#: Maximum consecutive tries that find no row. A purge can't cause more such tries; if more occur,
#: the caller's connection and the side connection use different tables.
ROUNDS = 5
#: Maximum seconds for the side connection: the caller's time limit, but at least the first number;
#: the second number if the caller has no limit. There is a limit because, behind a pooler, the side
#: connection can need the session of the caller.
BESIDE_S_MIN, BESIDE_S = 2.0, 10.0


async def take(
    dialect: Dialect,
    teller: Teller,
    beside: Beside,
    row: Row,
    timeout: float | None,
    now: Callable[[], float],
) -> RowLock:
    """Lock the row in the caller's transaction; raise ``NotAcquired`` after ``timeout`` seconds."""
    begun = now()
    try:
        return await _take(dialect, teller, beside, row, timeout, now)
    except Late as late:
        raise no_answer(row.shown, late.waited) from None
    except NotAcquired as over:
        over.name, over.waited = row.shown, now() - begun
        raise


async def _take(
    dialect: Dialect,
    teller: Teller,
    beside: Beside,
    row: Row,
    timeout: float | None,
    now: Callable[[], float],
) -> RowLock:
    """Do `take`, but raise `Late` if the side connection got no answer.

    A side connection first creates a missing row and commits it. So no transaction waits for the
    end of the transaction that created the row, and MySQL locks no gap in the index. This step is
    skipped if the row existed a short time ago. If the row is locked, the function waits. If a
    purge has removed the row, the side connection creates the row again; that fails if the caller's
    own query has locked the row's place in the index.
    """
    begun = now()
    end = None if timeout is None else begun + max(timeout, 0.0)
    made: bool | None = False
    gone, touched = 0, False
    looked = beside.seen.has(row, begun)
    while True:
        if not looked:
            made = await beside.do(lambda other: ensure(dialect, other, row), _limit(end, now))
        looked = False
        if made is None and touched:
            raise StaleSnapshot(stale(row.shown, REMOVED))
        if made is not None:
            touched = True
            fence = await _taken(dialect, teller, beside, row, now)
            if fence is not None:
                return RowLock(row.shown, fence)
            there = await dialect.there(teller, beside, row, _limit(end, now))
            gone = 0 if there else gone + 1
            if gone > ROUNDS:
                raise ConfigError(elsewhere(row.shown, row.table, dialect.label))
        left = None if end is None else end - now()
        if left is not None and left <= 0 and not gone:
            raise NotAcquired(busy(row.shown, timeout or 0.0))
        if made is not None and not gone:
            try:
                fence = await dialect.wait(teller, row, left)
            except Ended as ended:
                if end is None or now() < end:
                    raise ended.by from None  # the wait was cancelled
                raise NotAcquired(busy(row.shown, timeout or 0.0)) from ended.by
            if fence is not None:
                return RowLock(row.shown, fence)


def _limit(end: float | None, now: Callable[[], float]) -> float:
    """Return the maximum seconds for the side connection."""
    return BESIDE_S if end is None else max(end - now(), BESIDE_S_MIN)


async def _taken(
    dialect: Dialect, teller: Teller, beside: Beside, row: Row, now: Callable[[], float]
) -> int | None:
    """Take the row if it is free, and record in that case that it exists."""
    beside.seen.forget(row)
    fence = await dialect.take(teller, row)
    if fence is not None:
        beside.seen.note(row, now())
    return fence


async def purge(
    dialect: Dialect,
    beside: Beside,
    batch: Batch,
    age: float,
    progress: Callable[[int], object],
) -> int:
    """Remove unlocked rows that weren't used for ``age`` seconds; return their number."""
    try:
        cutoff = await beside.do(lambda other: dialect.cutoff(other, age))
        batch = batch._replace(cutoff=cutoff)
        removed = 0
        while True:
            count, after = await beside.do(partial(_purge, dialect, batch))
            removed += count
            progress(removed)
            if after is None:
                return removed
            batch = batch._replace(after=after)
    except Exception as wrong:
        if code(wrong) in dialect.no_right:
            raise ConfigError(no_right_to_purge(batch.table, wrong)) from wrong
        if code(wrong) in dialect.no_table:
            raise ConfigError(f"there is no table {batch.table!r} to purge: {wrong}") from wrong
        raise


async def _purge(
    dialect: Dialect, batch: Batch, teller: Teller
) -> tuple[int, tuple[str, str] | None]:
    return await dialect.purge(teller, batch)
