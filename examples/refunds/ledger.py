"""What became of each refund: a table that all nodes read and all workers write."""

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
#: An order is paid back once. The database knows it as well.
_ONCE = "CREATE UNIQUE INDEX IF NOT EXISTS once ON ledger (order_id) WHERE receipt IS NOT NULL"
#: What customers were told, by the refund that it is about.
_OUTBOX = "CREATE TABLE IF NOT EXISTS outbox (refund TEXT PRIMARY KEY, text TEXT NOT NULL)"
_COLUMNS = "refund, merchant, order_id, cents, receipt"


class Entry(NamedTuple):
    """A refund that is settled. ``receipt`` is the bank's, None if it was turned down."""

    refund: str
    merchant: str
    order: str
    cents: int
    receipt: str | None


class Ledger:
    """The database of refunds. Each call opens a connection, so any thread may call."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._guard = SqlFence()
        with self._open() as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(_TABLE)
            database.execute(_ONCE)
            database.execute(_OUTBOX)
            self._guard.create(database)

    @contextlib.contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        """A transaction."""
        database = sqlite3.connect(self._path, timeout=10.0)
        try:
            with database:
                yield database
        finally:
            database.close()

    def write(self, job: Delivery, refund: Refund, receipt: str | None) -> None:
        """Enter what became of a refund, by whoever has its delivery.

        ``FenceRejected`` if the delivery was lost and another worker has written for this merchant
        since; then nothing is written. To enter it a second time changes nothing.
        """
        with self._open() as database:
            self._guard.advance(database, f"merchant:{refund.merchant}", job)
            row = (refund.id, refund.merchant, refund.order, refund.cents, receipt)
            sql = f"INSERT INTO ledger ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)"
            database.execute(f"{sql} ON CONFLICT (refund) DO NOTHING", row)

    def entry(self, refund: str) -> Entry | None:
        """What became of this refund; None as long as it isn't settled."""
        return self._one("refund = ?", refund)

    def payment(self, order: str) -> Entry | None:
        """The refund by which this order was paid back, if it was."""
        return self._one("order_id = ? AND receipt IS NOT NULL", order)

    def _one(self, where: str, value: str) -> Entry | None:
        with self._open() as database:
            sql = f"SELECT {_COLUMNS} FROM ledger WHERE {where}"
            row = database.execute(sql, (value,)).fetchone()
        return None if row is None else Entry(*row)

    def wait(self, refund: str, seconds: float) -> Entry | None:
        """What became of it; None if it isn't settled within ``seconds``."""
        end = time.monotonic() + seconds
        while (found := self.entry(refund)) is None and time.monotonic() < end:
            time.sleep(0.02)
        return found

    def sent(self, refund: str, text: str) -> None:
        """Enter that the customer was told of a refund; a second time changes nothing."""
        with self._open() as database:
            sql = "INSERT INTO outbox VALUES (?, ?) ON CONFLICT (refund) DO NOTHING"
            database.execute(sql, (refund, text))

    def outbox(self) -> dict[str, str]:
        """What customers were told, by refund."""
        with self._open() as database:
            return dict(database.execute("SELECT refund, text FROM outbox").fetchall())

    def entries(self) -> list[Entry]:
        """All of it, in the order in which it was written."""
        with self._open() as database:
            rows = database.execute(f"SELECT {_COLUMNS} FROM ledger ORDER BY entry").fetchall()
        return [Entry(*row) for row in rows]
