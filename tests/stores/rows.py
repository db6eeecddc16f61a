"""The rows that holdfast keeps of a name in the tables of a database, and damage to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
import pymysql

#: Number of bits of the greatest value in a column of this type.
MOST = {"bigint": 63, "integer": 31, "int": 31, "tinyint": 7}
TEXTS = ("text", "bytea", "varbinary")


Ask = Callable[..., list[tuple[Any, ...]]]


class Row(NamedTuple):
    """A row of a table, or one column of it; an empty ``column`` means the whole row."""

    table: str
    name: str
    ticket: int | None
    column: str = ""
    type: str = ""


class RowsGround:
    """See `holdfast.testing.faults.damage.Ground`; ``items`` takes a whole name.

    ``ask`` runs a statement; ``schema`` has the table of names and the table of their claims.
    """

    #: Seconds for which two clients can both take themselves for the holder: a third of the ttl
    #: until the next renewal, and the delay of a busy machine.
    overlap_s = 2.5

    def __init__(
        self, url: str, ask: Ask, schema: str, lines: str = "lines", claims: str = "claims"
    ) -> None:
        self.url = url
        self._ask = ask
        self._schema = schema
        self._tables = (lines, claims)
        self._columns: dict[str, list[tuple[str, str]]] = {}

    def items(self, token: str) -> list[Row]:
        """The row of the name, the rows of its claims, and all their columns."""
        name, (_, claims) = token.encode(), self._tables
        found: list[Row] = []
        for table in self._tables:
            if not (columns := self._columns_of(table)):
                return []  # the tables are still to be made
            tickets: list[int | None] = [None]
            if table == claims:
                where = f"{self._schema}.{table} WHERE name = %s"
                tickets = [one for (one,) in self._ask(f"SELECT ticket FROM {where}", name)]
            for ticket in tickets:
                found.append(Row(table, token, ticket))
                found += [Row(table, token, ticket, *column) for column in columns]
        return found

    def _columns_of(self, table: str) -> list[tuple[str, str]]:
        if not self._columns.get(table):
            self._columns[table] = [
                (str(column), str(kind))
                for column, kind in self._ask(
                    "SELECT column_name, data_type FROM information_schema.columns"
                    " WHERE table_schema = %s AND table_name = %s AND column_name <> 'name'",
                    self._schema,
                    table,
                )
            ]
        return self._columns[table]

    def damage(self, item: Row, kind: str, chance: random.Random) -> bool:
        """Remove a row, or set a column of it."""
        table = f"{self._schema}.{item.table}"
        if item.column:
            value = self._value(item, kind, chance)
            change = f"UPDATE {table} SET {item.column} = {value}" if value else ""
        else:
            change = f"DELETE FROM {table}" if kind == "removed" else ""
        if not change:
            return False
        where, values = " WHERE name = %s", [item.name.encode(), item.ticket]
        if item.ticket is not None:
            where += " AND ticket = %s"
        try:
            self._ask(change + where, *values[: where.count("%s")])
        except (
            psycopg.DataError,
            psycopg.IntegrityError,
            pymysql.DataError,
            pymysql.IntegrityError,
        ):
            return False  # a column can't be so
        return True

    def _value(self, item: Row, kind: str, chance: random.Random) -> str:
        if bits := MOST.get(item.type):
            return {
                "zeroes": "0",
                "extreme": str(chance.choice((1, -1)) * ((1 << bits) - 1)),
                "flipped": f"{item.column} + {1 << chance.randrange(bits - 1)}",
                "another type": "-1",
            }.get(kind, "")
        if item.type in TEXTS:
            return {"emptied": "''", "another type": "'nonsense'"}.get(kind, "")
        if item.type == "boolean":
            return f"NOT {item.column}" if kind == "flipped" else ""
        if item.type == "uuid":
            return "gen_random_uuid()" if kind == "another type" else ""
        return ""
