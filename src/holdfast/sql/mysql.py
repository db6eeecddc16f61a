"""The statements of the row lock for MySQL 8.0.1 and MariaDB 10.6, and later versions."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from ..errors import Deadlock, NotSupported, StaleSnapshot
from .model import Batch, Beside, Row, Teller, code
from .words import REMOVED, deadlock, stale

# The first fence of a row is the time in microseconds, so that fences rise even if the row was
# removed and created again. It is UTC, because local time repeats one hour in autumn.
_CLOCK = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
_THERE = "SELECT 1 FROM {table} WHERE kind = <kind> AND name = <key>"
_MAKE = """INSERT INTO {table} (kind, name, fence, used)
VALUES (<kind>, <key>, -{clock}, UTC_TIMESTAMP())"""
# `_LOCK` reads the fence twice: in the locked row, and in the transaction's snapshot, by a subquery
# without FOR UPDATE. The subquery uses the key of the locked row, so it runs after the lock.
_LOCK = """SELECT r.fence AS held,
(SELECT p.fence FROM {table} AS p WHERE p.kind = r.kind AND p.name = r.name) AS plain
FROM {table} AS r WHERE r.kind = <kind> AND r.name = <key> FOR UPDATE"""
# SKIP LOCKED isn't used: under REPEATABLE READ, MySQL continues with the next row, and locks the
# gap before that row.
_TRY = f"{_LOCK} NOWAIT"
_RAISE = """UPDATE {table} SET fence = <fence>, used = UTC_TIMESTAMP()
WHERE kind = <kind> AND name = <key>"""
_DRASTIC = "SELECT @@GLOBAL.innodb_rollback_on_timeout"
_BEFORE = "SELECT @@SESSION.innodb_lock_wait_timeout"
_LIMIT = "SET SESSION innodb_lock_wait_timeout = <limit>"
_SLEEP = "SELECT SLEEP(<seconds>)"
_CUTOFF = "SELECT CAST(UTC_TIMESTAMP() - INTERVAL <age> SECOND AS CHAR)"
_OLD = """SELECT kind, name FROM {table}
WHERE used <= <cutoff>{only} AND (kind > <kind> OR (kind = <kind> AND name > <key>))
ORDER BY kind, name LIMIT <most>"""
_OF_KIND = " AND kind = <only>"
# The names are joined first, as a separate table, so that each name is one look-up by primary key.
# Otherwise the optimizer reads all rows of the kind, and waits for each locked row.
_KEYS = "({only}) AS k STRAIGHT_JOIN {table} AS r FORCE INDEX (PRIMARY)"
_KEY = "SELECT CONVERT(<key{at}> USING ascii) COLLATE ascii_bin AS name"
_ON = "r.kind = CONVERT(<kind> USING ascii) COLLATE ascii_bin AND r.name = k.name"
_LOCK_OLD = (
    f"SELECT r.kind, r.name FROM {_KEYS} ON {_ON} WHERE r.used <= <cutoff> FOR UPDATE SKIP LOCKED"  # noqa: S608
)
_REMOVE = f"DELETE r FROM {_KEYS} ON {_ON}"

_DUPLICATE, _LOCK_TIMEOUT, _DEADLOCK, _SYNTAX = 1062, 1205, 1213, 1064
#: Errors for a row that another transaction has locked: of MariaDB, of MySQL.
_BUSY = (_LOCK_TIMEOUT, 3572)
#: Errors for a row or a table that has changed since the snapshot.
_CHANGED = (1020, 1412)
#: First and maximum seconds between two tries, for waits that are too short for the server's own.
_POLL_S_MIN, _POLL_S_MAX = 0.005, 0.05
_TRIES = 3
#: Maximum seconds for which one statement waits; after that, the statement is sent again.
_WAIT_S_MAX = 3600


class MySql:
    """The statements for MySQL and MariaDB, and the meaning of answers; see `model.Dialect`."""

    label = "MySQL"
    no_table: frozenset[str | int] = frozenset({1146})
    made_meanwhile: frozenset[str | int] = frozenset({1050})
    no_right: frozenset[str | int] = frozenset({1044, 1142, 1143, 1227})
    create = """CREATE TABLE IF NOT EXISTS {table} (
  kind VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  fence BIGINT NOT NULL,
  used DATETIME NOT NULL,
  PRIMARY KEY (kind, name)
) ENGINE=InnoDB"""

    async def settle(self, teller: Teller) -> None:
        """Limit lock waits of the side connection to 1 s; refuse innodb_rollback_on_timeout."""
        await teller.ask(_LIMIT, {"limit": 1})
        if (await teller.ask(_DRASTIC, {})).number:
            raise NotSupported(
                "row_lock can't be used with innodb_rollback_on_timeout: a failed try would roll "
                "back your transaction. Start the server without it"
            )

    async def ensure(self, teller: Teller, row: Row) -> bool | None:
        """Create a missing row over a side connection; return True if this call created it.

        Return None if another transaction blocks the row's place in the index. A SELECT comes
        first, because an INSERT waits if the row exists and is locked.
        """
        barred = False
        for _ in range(_TRIES):
            if (await teller.ask(_sql(_THERE, row.table), row.values)).row is not None:
                return False
            if barred:
                return None
            try:
                await teller.ask(_sql(_MAKE, row.table), row.values)
                return True
            except Exception as wrong:
                if code(wrong) not in (_DUPLICATE, _DEADLOCK, _LOCK_TIMEOUT):
                    raise
                barred = code(wrong) == _LOCK_TIMEOUT
        return None

    async def take(self, teller: Teller, row: Row) -> int | None:
        """Lock the row; raise and return its fence; return None if the row is locked or missing."""
        return await self._locked(teller, row, _TRY)

    async def there(self, teller: Teller, beside: Beside, row: Row, limit: float) -> bool:
        """Return True if the row existed during a `take` that returned None; else create it."""
        made = await beside.do(lambda other: self.ensure(other, row), limit)
        if made is None:  # the caller's own query has locked the place of the removed row
            raise StaleSnapshot(stale(row.shown, REMOVED))
        return not made

    async def wait(self, teller: Teller, row: Row, seconds: float | None) -> int | None:
        """Do `take`, but wait: whole seconds in the server, less than one second by polling."""
        if seconds is not None and seconds < 1:
            return await self._polled(teller, row, seconds)
        before = (await teller.ask(_BEFORE, {})).number
        limit = _WAIT_S_MAX if seconds is None else min(int(seconds), _WAIT_S_MAX)
        await teller.ask(_LIMIT, {"limit": limit})
        try:
            fence = await self._locked(teller, row, _LOCK)
        except BaseException:
            with contextlib.suppress(Exception):  # the connection can be gone
                await teller.ask(_LIMIT, {"limit": before})
            raise
        await teller.ask(_LIMIT, {"limit": before})
        return fence

    async def _polled(self, teller: Teller, row: Row, left: float) -> int | None:
        """Poll for ``left`` seconds; between two tries the server sleeps (``SLEEP``)."""
        pause = _POLL_S_MIN
        while left > 0:
            await teller.ask(_SLEEP, {"seconds": min(pause, left)})
            left -= pause
            pause = min(pause * 1.5, _POLL_S_MAX)
            fence = await self.take(teller, row)
            if fence is not None:
                return fence
        return None

    async def _locked(self, teller: Teller, row: Row, how: str) -> int | None:
        """Lock the row, compare its fence with that in the snapshot, and raise the fence."""
        try:
            found = (await teller.ask(_sql(how, row.table), row.values)).row
            if found is None:
                return None
            held = int(found[0])
            plain = None if found[1] is None else int(found[1])
            if plain != held and not (plain is None and held < 0):
                raise StaleSnapshot(stale(row.shown, f"it reads fence {plain}, the row has {held}"))
            fence = abs(held) + 1
            await teller.ask(_sql(_RAISE, row.table), {**row.values, "fence": fence})
        except StaleSnapshot:
            raise
        except Exception as wrong:
            if code(wrong) in _BUSY:
                return None
            raise _meant(wrong, row) from wrong
        return fence

    async def cutoff(self, teller: Teller, age: float) -> str:
        """Return the time ``age`` seconds ago by the server's clock."""
        answer = await teller.ask(_CUTOFF, {"age": round(age)})
        assert answer.row is not None
        return _text(answer.row[0])

    async def purge(self, teller: Teller, batch: Batch) -> tuple[int, tuple[str, str] | None]:
        """Remove one batch of rows; return their number and the last row (None: all done)."""
        kind, key = batch.after
        values: dict[str, Any] = {"cutoff": batch.cutoff, "kind": kind, "key": key}
        values |= {"most": batch.most, "only": batch.kind}
        only = "" if batch.kind is None else _OF_KIND
        old = _pairs(await teller.rows(_sql(_OLD, batch.table, only), values))
        if not old:
            return 0, None
        await teller.ask("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", {})
        await teller.ask("START TRANSACTION", {})
        after = old[-1] if len(old) == batch.most else None
        try:
            count = 0
            for kind, some in groupby(old, itemgetter(0)):
                keys = [one[1] for one in some]
                count += await self._removed(teller, batch, kind, keys)
        except BaseException as wrong:
            with contextlib.suppress(Exception):  # the connection can be gone
                await teller.ask("ROLLBACK", {})
            if code(wrong) not in (_LOCK_TIMEOUT, _DEADLOCK):
                raise
            # Another lock blocks one of the rows. That row stays; the other rows are removed.
            return await self._one_by_one(teller, batch, old), after
        await teller.ask("COMMIT", {})
        return count, after

    async def _one_by_one(
        self, teller: Teller, batch: Batch, old: Sequence[tuple[str, str]]
    ) -> int:
        """Remove the rows of a batch, one per transaction, except blocked rows; return how many."""
        count = 0
        for kind, key in old:
            await teller.ask("START TRANSACTION", {})
            try:
                count += await self._removed(teller, batch, kind, [key])
            except Exception as wrong:
                await teller.ask("ROLLBACK", {})
                if code(wrong) not in (_LOCK_TIMEOUT, _DEADLOCK):
                    raise
            else:
                await teller.ask("COMMIT", {})
        return count

    async def _removed(self, teller: Teller, batch: Batch, kind: str, keys: list[str]) -> int:
        """Remove the rows of one kind that are still old and not locked; return their number."""
        lock = _sql(_LOCK_OLD, batch.table, _listed(keys))
        values = {"kind": kind, "cutoff": batch.cutoff, **_numbered(keys)}
        free = [key for _, key in _pairs(await teller.rows(lock, values))]
        if free:
            remove = _sql(_REMOVE, batch.table, _listed(free))
            await teller.ask(remove, {"kind": kind, **_numbered(free)})
        return len(free)


@lru_cache(64)
def _sql(template: str, table: str, only: str = "") -> str:
    return template.format(table=table, clock=_CLOCK, only=only)


def _listed(keys: Sequence[str]) -> str:
    """Return a SELECT that makes a table of keys, with one parameter for each key."""
    return " UNION ALL ".join(_KEY.format(at=at) for at in range(len(keys)))


def _numbered(keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of the parameters in `_listed`."""
    return {f"key{at}": key for at, key in enumerate(keys)}


def _pairs(rows: Sequence[Sequence[Any]]) -> list[tuple[str, str]]:
    return [(_text(one[0]), _text(one[1])) for one in rows]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _meant(wrong: Exception, row: Row) -> Exception:
    """Translate a driver's error to an error of `row_lock`; return other errors unchanged."""
    found = code(wrong)
    if found in _CHANGED:
        return StaleSnapshot(stale(row.shown, "the row has changed since your snapshot"))
    if found == _DEADLOCK:
        return Deadlock(deadlock(row.shown))
    if found == _SYNTAX:
        return NotSupported("row_lock needs MySQL 8.0.1 or MariaDB 10.6, or later")
    return wrong
