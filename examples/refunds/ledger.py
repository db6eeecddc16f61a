"""The ledger: a table with the result of each refund. All nodes read it; all workers write it."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Generator
from typing import NamedTuple

from holdfast.fenced import SqlFence
from holdfast.sync import Delivery

from .refund import Refund

_TABLE = """CREATE TABLE IF NOT EXISTS ledger (
  entry INTEGER PRIMARY KEY AUTOINCREMENT,
  refund TEXT NOT NULL UNIQUE,
  merchant TEXT NOT NULL,
  order_id TEXT NOT NULL,
  cents INTEGER NOT NULL,
  receipt TEXT UNIQUE
)"""
#: An order is paid back only once. The database enforces that too.
_ONCE = "CREATE UNIQUE INDEX IF NOT EXISTS once ON ledger (order_id) WHERE receipt IS NOT NULL"
#: The notices that were sent to customers, one for each refund.
_OUTBOX = "CREATE TABLE IF NOT EXISTS outbox (refund TEXT PRIMARY KEY, text TEXT NOT NULL)"
_COLUMNS = "refund, merchant, order_id, cents, receipt"


class Entry(NamedTuple):
    """A settled refund. ``receipt`` is the bank's; None if the refund was turned down."""

    refund: str
    merchant: str
    order: str
    cents: int
    receipt: str | None


class Ledger:
    """The database of refunds. Each call opens a connection, so any thread may call."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fences = SqlFence()
        with self._open() as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(_TABLE)
            database.execute(_ONCE)
            database.execute(_OUTBOX)
            self._fences.create(database)

    @contextlib.contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        """Open a connection for one transaction."""
        database = sqlite3.connect(self._path, timeout=10.0)
        try:
            with database:
                yield database
        finally:
            database.close()

    def write(self, job: Delivery, refund: Refund, receipt: str | None) -> None:
        """Enter the result of a refund, under the fence of its delivery.

        Raise ``FenceRejected`` and write nothing if the delivery was lost and another worker has
        written for this merchant since. A second entry of the same refund changes nothing.
        """
        with self._open() as database:
            self._fences.advance(database, f"merchant:{refund.merchant}", job)
            row = (refund.id, refund.merchant, refund.order, refund.cents, receipt)
            sql = f"INSERT INTO ledger ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)"
            database.execute(f"{sql} ON CONFLICT (refund) DO NOTHING", row)

    def entry(self, refund: str) -> Entry | None:
        """Return the entry of this refund; None if it isn't settled yet."""
        return self._one("refund = ?", refund)

    def payment(self, order: str) -> Entry | None:
        """Return the entry of the refund that paid this order back; None if there is none."""
        return self._one("order_id = ? AND receipt IS NOT NULL", order)

    def _one(self, where: str, value: str) -> Entry | None:
        with self._open() as database:
            sql = f"SELECT {_COLUMNS} FROM ledger WHERE {where}"
            row = database.execute(sql, (value,)).fetchone()
        return None if row is None else Entry(*row)

    def wait(self, refund: str, seconds: float) -> Entry | None:
        """Wait for the entry of a refund; return None if it isn't settled within ``seconds``."""
        end = time.monotonic() + seconds
        while (found := self.entry(refund)) is None and time.monotonic() < end:
            time.sleep(0.02)
        return found

    def sent(self, refund: str, text: str) -> None:
        """Enter a notice that was sent; a second entry for the same refund changes nothing."""
        with self._open() as database:
            sql = "INSERT INTO outbox VALUES (?, ?) ON CONFLICT (refund) DO NOTHING"
            database.execute(sql, (refund, text))

    def outbox(self) -> dict[str, str]:
        """Return the texts of all notices, by refund."""
        with self._open() as database:
            return dict(database.execute("SELECT refund, text FROM outbox").fetchall())

    def entries(self) -> list[Entry]:
        """Return all entries in the order in which they were written."""
        with self._open() as database:
            rows = database.execute(f"SELECT {_COLUMNS} FROM ledger ORDER BY entry").fetchall()
        return [Entry(*row) for row in rows]
