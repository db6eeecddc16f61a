"""Takes a lock on a row, and removes rows that are no longer used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..errors import ConfigError, NotAcquired, StaleSnapshot
from .model import Batch, Beside, Dialect, Ended, Late, Row, RowLock, Teller, code
from .table import ensure
from .words import REMOVED, busy, elsewhere, no_answer, no_right_to_purge, stale

#: Maximum consecutive tries that find the row removed just before the lock; more can't be chance.
ROUNDS = 5
#: Seconds for the side connection: the minimum, and the value if the caller has no time limit.
#: Behind a pooler it can be waiting for a session that the caller's own transaction has.
BESIDE_S_MIN, BESIDE_S = 2.0, 10.0


async def take(
    dialect: Dialect,
    teller: Teller,
    beside: Beside,
    row: Row,
    timeout: float | None,
    now: Callable[[], float],
) -> RowLock:
    """Lock the row in the caller's transaction; ``NotAcquired`` when the time has expired."""
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
    """`take`, but `Late` if the side connection has no answer.

    The row exists before the transaction touches it: a side connection creates and commits it, so
    that no transaction waits for the end of the one that created it, and so that MySQL locks no
    gap. If the row was seen not long ago, this step is skipped. If the row is locked, this waits.
    If a purge has removed it, it is created again, unless our own query has locked its place.
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
    """Take the row if it is free; only then remember that it exists."""
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
    """Remove the rows that weren't used for ``age`` seconds and aren't in use; return how many."""
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
