"""The row lock on MySQL, from 8.0.1 on, and MariaDB, from 10.6 on."""

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

# A row begins with the time in microseconds, so that fences rise even if it was removed and made
# anew; by UTC, because local time goes through one hour of autumn twice.
_CLOCK = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
_THERE = "SELECT 1 FROM {table} WHERE kind = <kind> AND name = <key>"
_MAKE = """INSERT INTO {table} (kind, name, fence, used)
VALUES (<kind>, <key>, -{clock}, UTC_TIMESTAMP())"""
# The fence that is locked, and the one that a plain read shows, which a subquery is that doesn't
# say FOR UPDATE. It asks for the locked row's key, so it is read later.
_LOCK = """SELECT r.fence AS held,
(SELECT p.fence FROM {table} AS p WHERE p.kind = r.kind AND p.name = r.name) AS plain
FROM {table} AS r WHERE r.kind = <kind> AND r.name = <key> FOR UPDATE"""
# Not SKIP LOCKED: under REPEATABLE READ that goes on to the next row, and locks the gap before it.
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
# By primary key, a look-up for each name: the names come first, as a table of their own, as the
# optimizer else reads all rows of the kind, and waits for each of them that is in use.
_KEYS = "({only}) AS k STRAIGHT_JOIN {table} AS r FORCE INDEX (PRIMARY)"
_KEY = "SELECT CONVERT(<key{at}> USING ascii) COLLATE ascii_bin AS name"
_ON = "r.kind = CONVERT(<kind> USING ascii) COLLATE ascii_bin AND r.name = k.name"
_LOCK_OLD = (
    f"SELECT r.kind, r.name FROM {_KEYS} ON {_ON} WHERE r.used <= <cutoff> FOR UPDATE SKIP LOCKED"  # noqa: S608
)
_REMOVE = f"DELETE r FROM {_KEYS} ON {_ON}"

_DUPLICATE, _LOCK_TIMEOUT, _DEADLOCK, _SYNTAX = 1062, 1205, 1213, 1064
#: Somebody has it: MariaDB, MySQL.
_BUSY = (_LOCK_TIMEOUT, 3572)
#: The row or its table has changed since the snapshot.
_CHANGED = (1020, 1412)
#: Seconds between two tries, where waiting in the server isn't possible.
_POLL_S_MIN, _POLL_S_MAX = 0.005, 0.05
_TRIES = 3
#: Seconds that one statement waits at most; then it is sent again.
_WAIT_S_MAX = 3600


class MySql:
    """The statements, and what the answers mean."""

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
        """What is made beside doesn't wait for anybody's transaction."""
        await teller.ask(_LIMIT, {"limit": 1})
        if (await teller.ask(_DRASTIC, {})).number:
            raise NotSupported(
                "row_lock can't be used with innodb_rollback_on_timeout: a try in vain would roll "
                "back your transaction. Start the server without it"
            )

    async def ensure(self, teller: Teller, row: Row) -> bool | None:
        """Have a row there, beside: was it made just now? None: somebody bars the place for it.

        A look comes first, because an INSERT waits for who has locked the row that is there.
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
        """Lock the row and raise its fence unless somebody has it, or it isn't there: the fence."""
        return await self._locked(teller, row, _TRY)

    async def there(self, teller: Teller, beside: Beside, row: Row, limit: float) -> bool:
        """After a `take` in vain: was it somebody's? False: it wasn't there, but can be now."""
        made = await beside.do(lambda other: self.ensure(other, row), limit)
        if made is None:  # our own search has locked the place where it was
            raise StaleSnapshot(stale(row.shown, REMOVED))
        return not made

    async def wait(self, teller: Teller, row: Row, seconds: float | None) -> int | None:
        """As `take`, but wait so long: whole seconds in the server, the rest by asking again."""
        if seconds is not None and seconds < 1:
            return await self._polled(teller, row, seconds)
        before = (await teller.ask(_BEFORE, {})).number
        limit = _WAIT_S_MAX if seconds is None else min(int(seconds), _WAIT_S_MAX)
        await teller.ask(_LIMIT, {"limit": limit})
        try:
            fence = await self._locked(teller, row, _LOCK)
        except BaseException:
            with contextlib.suppress(Exception):  # the connection may be gone
                await teller.ask(_LIMIT, {"limit": before})
            raise
        await teller.ask(_LIMIT, {"limit": before})
        return fence

    async def _polled(self, teller: Teller, row: Row, left: float) -> int | None:
        """Ask again and again until the time is over, which the server sleeps away."""
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
        """Lock the row, compare what plain reads show, and raise the fence."""
        try:
            found = (await teller.ask(_sql(how, row.table), row.values)).row
            if found is None:
                return None
            held = int(found[0])
            plain = None if found[1] is None else int(found[1])
            if plain != held and not (plain is None and held < 0):
                raise StaleSnapshot(stale(row.shown, f"fence {plain} there, {held} in truth"))
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
        """The server's time so many seconds ago."""
        answer = await teller.ask(_CUTOFF, {"age": round(age)})
        assert answer.row is not None
        return _text(answer.row[0])

    async def purge(self, teller: Teller, batch: Batch) -> tuple[int, tuple[str, str] | None]:
        """Remove one batch: how many, and where the next one begins; None after the last."""
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
            with contextlib.suppress(Exception):  # the connection may be gone
                await teller.ask("ROLLBACK", {})
            if code(wrong) not in (_LOCK_TIMEOUT, _DEADLOCK):
                raise
            # Somebody's lock is in the way of one of them: that one stays, the others go.
            return await self._one_by_one(teller, batch, old), after
        await teller.ask("COMMIT", {})
        return count, after

    async def _one_by_one(
        self, teller: Teller, batch: Batch, old: Sequence[tuple[str, str]]
    ) -> int:
        """Remove those of a batch that can be removed without waiting; how many."""
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
        """Remove those rows of one kind that are still old and that nobody has; how many."""
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
    """A table with a row for each key, as parameters."""
    return " UNION ALL ".join(_KEY.format(at=at) for at in range(len(keys)))


def _numbered(keys: Sequence[str]) -> dict[str, Any]:
    """What stands in those places."""
    return {f"key{at}": key for at, key in enumerate(keys)}


def _pairs(rows: Sequence[Sequence[Any]]) -> list[tuple[str, str]]:
    return [(_text(one[0]), _text(one[1])) for one in rows]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _meant(wrong: Exception, row: Row) -> Exception:
    """What a refusal means for who wants the row."""
    found = code(wrong)
    if found in _CHANGED:
        return StaleSnapshot(stale(row.shown, "somebody has had it since your snapshot"))
    if found == _DEADLOCK:
        return Deadlock(deadlock(row.shown))
    if found == _SYNTAX:
        return NotSupported("row_lock needs MySQL 8.0.1 or MariaDB 10.6, or a later one")
    return wrong
