"""The statements of the row lock for PostgreSQL 12 and later."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..errors import Deadlock, NotAcquired, StaleSnapshot
from .model import Batch, Beside, Ended, Row, Teller, code
from .words import deadlock, stale

# The first fence of a row is the time in microseconds, so that fences rise even if the row was
# removed and created again.
_CLOCK = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS bigint)"
_ENSURE = """INSERT INTO {table} (kind, name, fence, used)
SELECT CAST(<kind> AS text), CAST(<key> AS text), -{clock}, clock_timestamp()
WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE kind = <kind> AND name = <key>)
ON CONFLICT DO NOTHING"""
# `_TAKE` is one round trip. It locks the newest version of the row. PostgreSQL reads that version
# again before the change, so the statement never raises the fence of an older version.
_TAKE = """WITH mine AS (
SELECT kind, name FROM {table} WHERE kind = <kind> AND name = <key> FOR UPDATE SKIP LOCKED)
UPDATE {table} AS r SET fence = ABS(r.fence) + 1, used = clock_timestamp()
FROM mine WHERE r.kind = mine.kind AND r.name = mine.name
RETURNING r.fence"""
_WAIT = """UPDATE {table} AS r
SET fence = ABS(r.fence) + 1, used = clock_timestamp()
WHERE r.kind = <kind> AND r.name = <key>
RETURNING r.fence"""
_SEEN = """SELECT (SELECT 1 FROM {table} WHERE kind = <kind> AND name = <key>),
current_setting('transaction_isolation')"""
_LIMIT = """SELECT current_setting('statement_timeout'),
set_config('statement_timeout', <limit>, true)"""
_UNLIMIT = "SELECT set_config('statement_timeout', <limit>, true)"
_SAVEPOINT = "holdfast_row"
_TRIES = 3
_CUTOFF = """SELECT CAST(clock_timestamp() - CAST(<age> AS double precision) * INTERVAL '1 second'
AS text)"""
_OF_KIND = " AND kind = <only>"
# Under READ COMMITTED, PostgreSQL checks the condition again after it has locked a row. So a row
# that was used after the start of the statement stays.
_PURGE = """WITH old AS (
SELECT kind, name FROM {table}
WHERE used <= CAST(<cutoff> AS timestamptz){only} AND (kind, name) > (<kind>, <key>)
ORDER BY kind, name LIMIT <most> FOR UPDATE SKIP LOCKED),
gone AS (DELETE FROM {table} AS r USING old WHERE r.kind = old.kind AND r.name = old.name)
SELECT kind, name FROM old"""

_SERIALIZATION, _DEADLOCK, _CANCELLED, _LOCK_TIMEOUT = "40001", "40P01", "57014", "55P03"


class Postgres:
    """The statements for PostgreSQL, and the meaning of their answers; see `model.Dialect`."""

    label = "PostgreSQL"
    no_table: frozenset[str | int] = frozenset({"42P01"})
    made_meanwhile: frozenset[str | int] = frozenset({"42P07", "23505", "XX000"})
    no_right: frozenset[str | int] = frozenset({"42501"})
    create = """CREATE TABLE IF NOT EXISTS {table} (
  kind varchar(255) COLLATE "C" NOT NULL,
  name varchar(255) COLLATE "C" NOT NULL,
  fence bigint NOT NULL,
  used timestamptz NOT NULL,
  PRIMARY KEY (kind, name)
) WITH (fillfactor = 70)"""

    async def settle(self, teller: Teller) -> None:
        """Do nothing: behind PgBouncer, other clients would get a session with our settings."""

    async def ensure(self, teller: Teller, row: Row) -> bool | None:
        """Create a missing row; return True if this call created it. Never return None."""
        for _ in range(_TRIES):
            try:
                return (await teller.ask(_sql(_ENSURE, row.table), row.values)).changed > 0
            except Exception as wrong:
                if code(wrong) != _SERIALIZATION:  # another transaction has created it
                    raise
        return False

    async def take(self, teller: Teller, row: Row) -> int | None:
        """Lock the row; raise and return its fence; return None if the row is locked or missing."""
        try:
            return (await teller.ask(_sql(_TAKE, row.table), row.values)).number
        except Exception as wrong:
            raise _meant(wrong, row) from wrong

    async def there(self, teller: Teller, beside: Beside, row: Row, limit: float) -> bool:
        """Return True if the row exists, after a `take` that returned None."""
        seen = await teller.ask(_sql(_SEEN, row.table), row.values)
        assert seen.row is not None
        there, isolation = seen.row
        if there is None and isolation in ("repeatable read", "serializable"):
            raise StaleSnapshot(stale(row.shown, "its row is younger than your snapshot"))
        return there is not None

    async def wait(self, teller: Teller, row: Row, seconds: float | None) -> int | None:
        """Do `take`, but wait for the holder.

        PostgreSQL aborts a transaction when a statement fails. So the wait is in a savepoint."""
        await teller.ask(f"SAVEPOINT {_SAVEPOINT}", {})
        try:
            fence = await self._waited(teller, row, seconds)
        except Exception as wrong:
            with contextlib.suppress(Exception):  # the connection can be gone
                await teller.ask(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}", {})
                await teller.ask(f"RELEASE SAVEPOINT {_SAVEPOINT}", {})
            if seconds is not None and code(wrong) == _CANCELLED:
                raise Ended(wrong) from wrong
            raise _meant(wrong, row) from wrong
        await teller.ask(f"RELEASE SAVEPOINT {_SAVEPOINT}", {})
        return fence

    async def _waited(self, teller: Teller, row: Row, seconds: float | None) -> int | None:
        """Wait for the row, limited by ``statement_timeout``.

        The time of ``lock_timeout`` isn't used, because it begins again with each holder."""
        statement = _sql(_WAIT, row.table)
        if seconds is None:
            return (await teller.ask(statement, row.values)).number
        limit = str(max(1, round(min(seconds, 2_000_000.0) * 1000)))
        before = (await teller.ask(_LIMIT, {"limit": limit})).row
        fence = (await teller.ask(statement, row.values)).number
        assert before is not None
        await teller.ask(_UNLIMIT, {"limit": before[0]})
        return fence

    async def cutoff(self, teller: Teller, age: float) -> str:
        """Return the time ``age`` seconds ago by the server's clock."""
        answer = await teller.ask(_CUTOFF, {"age": age})
        assert answer.row is not None
        return str(answer.row[0])

    async def purge(self, teller: Teller, batch: Batch) -> tuple[int, tuple[str, str] | None]:
        """Remove one batch of rows; return their number and the last row (None: all done)."""
        kind, key = batch.after
        values: Mapping[str, Any] = {
            "cutoff": batch.cutoff, "kind": kind, "key": key, "most": batch.most,
            "only": batch.kind,
        }  # fmt: skip
        only = "" if batch.kind is None else _OF_KIND
        purge = _sql(_PURGE, batch.table, only)
        await teller.ask("BEGIN ISOLATION LEVEL READ COMMITTED", {})
        try:
            gone = await teller.rows(purge, values)
        except BaseException:
            with contextlib.suppress(Exception):  # the connection can be gone
                await teller.ask("ROLLBACK", {})
            raise
        await teller.ask("COMMIT", {})
        if len(gone) < batch.most:
            return len(gone), None
        last = max((str(one[0]), str(one[1])) for one in gone)
        return len(gone), last


@lru_cache(64)
def _sql(template: str, table: str, only: str = "") -> str:
    return template.format(table=table, clock=_CLOCK, only=only)


def _meant(wrong: Exception, row: Row) -> Exception:
    """Translate a driver's error to an error of `row_lock`; return other errors unchanged."""
    found = code(wrong)
    if found == _SERIALIZATION:
        return StaleSnapshot(stale(row.shown, "another holder committed after your snapshot"))
    if found == _DEADLOCK:
        return Deadlock(deadlock(row.shown))
    if found == _LOCK_TIMEOUT:
        return NotAcquired(
            f"{row.shown!r:.80}: the lock_timeout of your session ended the wait; raise it"
        )
    return wrong
