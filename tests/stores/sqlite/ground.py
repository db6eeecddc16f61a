"""The stored state of one name in the embedded store's files, with its ways to damage it."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
from typing import NamedTuple
from zlib import crc32

from holdfast.stores.sqlite.blocking import lone
from tests.stores.bytes import changed

#: The parts of a claim in the table of lone claims: start offset, step per slot, and size in bytes.
PARTS = {
    "ticket": (lone._TICKETS, 8, 8),
    "expires": (lone._EXPIRES, 8, 8),
    "first": (lone._FIRST, 8, 8),
    "id": (lone._BODIES, lone.BODY, 32),
    "since": (lone._BODIES + 48, lone.BODY, 8),
    "ttl": (lone._BODIES + lone._OWN.size, lone.BODY, 8),
}
COLUMNS = ("held", "weight", "expires", "seat", "state", "ttl")


class Item(NamedTuple):
    """One part of a name's claim in the table, or one column of a row (``''``: the whole row)."""

    part: str = ""
    slot: int = 0
    name: str = ""
    ticket: int = 0
    column: str = ""


class SqliteGround:
    """An implementation of `holdfast.testing.faults.damage.Ground`; ``items`` takes a whole
    name."""

    #: Seconds for which two holders can overlap: a third of the ttl until the next renewal, plus a
    #: margin for a busy machine.
    overlap_s = 2.5

    def __init__(self, path: str) -> None:
        self.url = f"sqlite://{path}"
        self._path = path

    def items(self, token: str) -> list[Item]:
        """The claim of the table, if there is one, and the rows of the database."""
        slot = crc32(token.encode()) % lone.SLOTS
        found: list[Item] = []
        with contextlib.suppress(OSError), open(f"{self._path}-lone", "rb") as table:
            table.seek(lone._TICKETS + 8 * slot)
            if any(table.read(8)):
                found += [Item(part, slot) for part in PARTS]
        for (ticket,) in self._do("SELECT ticket FROM claims WHERE name = ?", token):
            found += [Item("", 0, token, ticket, column) for column in ("", *COLUMNS)]
        return found

    def damage(self, item: Item, kind: str, chance: random.Random) -> bool:
        """Overwrite one part of the table, or change one row of the database."""
        if item.part:
            return self._overwrite(item, kind, chance)
        where = "WHERE name = ? AND ticket = ?"
        if not item.column:
            return kind == "removed" and self._changed(f"DELETE FROM claims {where}", item)
        value = {
            "emptied": "NULL" if item.column != "expires" else "0",
            "zeroes": "0",
            "extreme": chance.choice(("9223372036854775807", "-9223372036854775808", "1e300")),
            "another type": "'theirs'",
        }.get(kind)
        return value is not None and self._changed(
            f"UPDATE claims SET {item.column} = {value} {where}", item
        )

    def _overwrite(self, item: Item, kind: str, chance: random.Random) -> bool:
        """Overwrite one part. Zeros are left out: they mean an empty slot, so no reader can detect
        them."""
        if kind not in ("flipped", "extreme"):
            return False
        start, step, size = PARTS[item.part]
        fd = os.open(f"{self._path}-lone", os.O_RDWR)
        try:
            at = start + step * item.slot
            os.pwrite(fd, changed(os.pread(fd, size, at), kind, chance), at)
        finally:
            os.close(fd)
        return True

    def _changed(self, statement: str, item: Item) -> bool:
        self._do(statement, item.name, item.ticket)
        return True

    def _do(self, statement: str, *values: object) -> list[tuple[int]]:
        if not os.path.exists(self._path):
            return []
        try:
            with contextlib.closing(sqlite3.connect(self._path, timeout=5)) as one, one:
                return one.execute(statement, values).fetchall()
        except sqlite3.Error:
            return []  # it is being made, or refuses
