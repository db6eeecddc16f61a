"""The rows that holdfast keeps for a round in the tables of a database, and their damage."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import psycopg
import pymysql

from tests.stores.bytes import changed

Ask = Callable[..., list[tuple[Any, ...]]]
#: Number of bits of the greatest value in a column of this type.
MOST = {"bigint": 63, "integer": 31, "int": 31, "tinyint": 7}
#: Errors of a database if a row cannot have this value, or is locked for too long.
REFUSED = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    pymysql.DataError,
    pymysql.IntegrityError,
)
#: Errors of MariaDB: a lock wait timed out, or a deadlock happened.
_BUSY = (1205, 1213)
#: Number of rows in the dozen tables of a round, and their columns.
ITEMS = 160
#: The column that is not damaged: its value is used without a check, because `resize` changes only
#: this column.
BELIEVED = "capacity"


class Table(NamedTuple):
    """A table: its primary key, and its columns with their types."""

    name: str
    key: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]


class Cell(NamedTuple):
    """A row by its key, or one column of it; an empty ``column`` means the whole row."""

    table: str
    where: tuple[tuple[str, Any], ...]
    column: str = ""
    type: str = ""


class TablesGround:
    """See `holdfast.testing.faults.damage.Ground`.

    ``ask`` runs a statement. ``owned`` maps each table to the column or condition by which the rows
    of a name are found.
    """

    #: Seconds for which two clients can both take themselves for the holder: a third of the ttl
    #: until the next renewal, and the delay of a busy machine.
    overlap_s = 2.5

    #: The ends of the names of a round.
    ends: Sequence[str] = ("-lock", "-queue", "-guard")
    #: The columns that are not damaged.
    believed: Collection[str] = (BELIEVED,)

    def __init__(self, url: str, ask: Ask, schema: str, owned: dict[str, str]) -> None:
        self.url = url
        self._ask = ask
        self._schema = schema
        self._owned = owned
        self._tables: list[Table] = []

    def items(self, token: str) -> list[Cell]:
        """Each row of the names of a round, and each column of it."""
        names = [f"{token}{end}".encode() for end in self.ends]
        found: list[Cell] = []
        for table in self._known():
            text = (
                f"SELECT {', '.join(table.key)} FROM {self._schema}.{table.name}"
                f" WHERE {self._owned[table.name]} IN ({', '.join(['%s'] * len(names))})"
            )
            text += ")" * self._owned[table.name].count("(")
            for values in sorted(self._ask(text, *names), key=repr):
                row = Cell(table.name, tuple(zip(table.key, values, strict=True)))
                found.append(row)
                found += [
                    row._replace(column=name, type=kind)
                    for name, kind in table.columns
                    if name not in self.believed
                ]
        return found

    def _known(self) -> list[Table]:
        """The tables, which the first verb creates."""
        if not self._tables:
            self._tables = [
                table for table in map(self._table, sorted(self._owned)) if table.columns
            ]
        return self._tables

    def _table(self, name: str) -> Table:
        columns = self._ask(
            "SELECT column_name, data_type FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            self._schema,
            name,
        )
        keys = self._ask(
            "SELECT k.column_name FROM information_schema.key_column_usage AS k"
            " JOIN information_schema.table_constraints AS c"
            " ON c.constraint_name = k.constraint_name AND c.table_schema = k.table_schema"
            " AND c.table_name = k.table_name"
            " WHERE c.constraint_type = 'PRIMARY KEY' AND k.table_schema = %s"
            " AND k.table_name = %s ORDER BY k.ordinal_position",
            self._schema,
            name,
        )
        key = tuple(str(column) for (column,) in keys)
        return Table(name, key, tuple((str(column), str(kind)) for column, kind in columns))

    def damage(self, item: Cell, kind: str, chance: random.Random) -> bool:
        """Remove a row, or set a column of it."""
        where = " WHERE " + " AND ".join(f"{column} = %s" for column, _ in item.where)
        of = [value for _, value in item.where]
        table = f"{self._schema}.{item.table}"
        try:
            if not item.column:
                if kind != "removed":
                    return False
                self._ask(f"DELETE FROM {table}{where}", *of)
                return True
            rows = self._ask(f"SELECT {item.column} FROM {table}{where}", *of)
            if not rows or (value := _value(rows[0][0], item.type, kind, chance)) is _NOTHING:
                return False
            self._ask(f"UPDATE {table} SET {item.column} = %s{where}", value, *of)
        except REFUSED:
            return False
        except pymysql.OperationalError as busy:
            if busy.args[0] not in _BUSY:
                raise
            return False
        return True


_NOTHING = object()


def _value(before: Any, type_: str, kind: str, chance: random.Random) -> Any:
    """The damaged value of a column; `_NOTHING` if it cannot have this kind of damage."""
    if kind == "removed":
        return None
    if bits := MOST.get(type_, 15 if type_ == "smallint" else 0):
        flipped = int(before or 0) ^ (1 << chance.randrange(bits))
        extreme = chance.choice((1, -1)) * ((1 << bits) - 1)
        numbers = {"zeroes": 0, "extreme": extreme, "flipped": flipped, "another type": -1}
        return numbers.get(kind, _NOTHING)
    if type_ == "double precision":
        floats = {"zeroes": 0.0, "extreme": chance.choice((1e300, float("inf"), float("nan")))}
        return floats.get(kind, _NOTHING)
    if type_ == "boolean":
        return not before if kind == "flipped" else _NOTHING
    if type_ == "uuid":
        return uuid.UUID(int=chance.getrandbits(128)) if kind == "another type" else _NOTHING
    if type_ == "text":
        return {"emptied": "", "another type": "nonsense"}.get(kind, _NOTHING)
    if isinstance(before, bytes | memoryview):
        after = changed(bytes(before), kind, chance)
        return after if kind != "extreme" else b"\xff" * max(1, len(bytes(before)))
    return _NOTHING


def postgres_tables() -> dict[str, str]:
    """The tables of PostgreSQL, each with the column that has the name."""
    return {
        "lines": "name", "claims": "name",
        **dict.fromkeys(
            ("jobs", "groups", "ready", "loans", "known", "counts", "queues", "rates", "idle"),
            "queue",
        ),
        **dict.fromkeys(
            ("refresh_duties", "refresh_values", "refresh_waiters", "refresh_tallies"), "guard"
        ),
    }  # fmt: skip


def mysql_tables(schema: str) -> dict[str, str]:
    """The tables of MariaDB, whose queues have numbers, each with the condition for a name."""
    numbers = f"queue IN (SELECT id FROM {schema}.holdfast_queues WHERE name"
    takes = f"id IN (SELECT t.take FROM {schema}.holdfast_tracks AS t WHERE t.{numbers}"
    return {
        "holdfast_lines": "name", "holdfast_claims": "name", "holdfast_tombs": "name",
        "holdfast_queues": "name",
        **dict.fromkeys(
            [f"holdfast_{what}" for what in ("counts", "tracks", "jobs", "dead", "ids")], numbers
        ),
        "holdfast_takes": takes,
        **dict.fromkeys(
            [f"holdfast_refresh_{what}" for what in ("duties", "values", "tallies")], "guard"
        ),
    }  # fmt: skip
