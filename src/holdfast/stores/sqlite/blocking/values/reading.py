"""Reads of values without the file mutex: by read-only connections, or from memory where nothing
has changed.

A read must not wait for writers, so reads have separate connections, each for one thread at a time.
In addition, a row that was read is kept in memory, with a number from the mapped page. Every writer
of the row changes this number: to an odd number before its commit, and to the next even number
after it. While the number is the same, the row is the same. Then a read needs no database, and
still sees every change that any process had committed before the read began.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Sequence
from threading import RLock, get_ident
from typing import Any

from .....core.guard.model import Entry, Value
from ..closing import Closing, leak
from ..database import Database, escaped
from ..header import CHANGES, LOW, WORDS, WORLD
from ..sql import guards as statements
from ..way import forking
from .rows import value_of

#: Maximum number of threads of one client that read at once; other threads wait.
READERS_MAX = 4
#: Maximum seconds that a thread waits for a reader; then it reads inside the file mutex.
READER_S = 0.25
#: Maximum number of values that a client keeps after it has read them, and the maximum bytes of
#: each.
KEPT_MAX = 1024
KEPT_BYTES = 8 * 1024
#: Seconds between two checks that the files are in their place; a verb that writes always checks.
LOOK_EVERY_S = 1.0
#: A reader never waits for SQLite's locks: the thread reads inside the file mutex instead.
BUSY_S = 0.0

_VALUE = statements().value


def slot(entry: Entry) -> int:
    """Return the index of the word that counts changes of an entry; entries can share a word."""
    text = f"{entry.guard}\0{entry.key}".encode("utf-8", "surrogatepass")
    return CHANGES + zlib.crc32(text) % (WORDS - CHANGES)


class Changing:
    """Marks entries in the mapped page as changing, during a commit."""

    def __init__(self, words: memoryview[int], entries: Iterable[Entry]) -> None:
        self._words = words
        self._slots = {slot(entry) for entry in entries}

    def __enter__(self) -> None:
        words = self._words
        for at in self._slots:
            words[at] = (words[at] + 1) & LOW | 1  # odd, also after a client was killed here

    def __exit__(self, *_: object) -> None:
        words = self._words
        for at in self._slots:
            words[at] = (words[at] + 1) & LOW


class Reader:
    """One connection that only reads."""

    def __init__(self, database: Database) -> None:
        self.lock = RLock()
        path = database.path
        self.connection = sqlite3.connect(
            f"file:{escaped(path)}?mode=rw",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,
            factory=Closing,
        )
        try:
            self.run = self.connection.execute
            self.run("PRAGMA query_only = 1")
            self.run(_VALUE, ("", "")).fetchall()
            self.fits = os.stat(path).st_ino == database.inode
        except BaseException:
            self.connection.close()
            raise

    def read(self, entries: Sequence[Entry], seconds: float) -> list[Any] | None:
        """Return the rows of the entries; None if another thread uses this connection for longer
        than ``seconds``, or if a thread is about to fork: during a fork, no thread may be inside
        SQLite.

        Each row is read by a separate statement, because an open statement would keep its first
        snapshot until it ends.
        """
        try:
            if not self.lock.acquire(seconds > 0, seconds if seconds > 0 else -1):
                return None
            if forking():  # checked under the lock, for which a forking thread waits
                return None
            return [self.run(_VALUE, entry).fetchone() for entry in entries]
        finally:
            try:  # noqa: SIM105 - suppress() is written in Python: an interrupt could come there
                self.lock.release()
            except RuntimeError:
                pass

    def close(self) -> None:
        """Close the connection when no thread reads through it, or after `READER_S`."""
        self.lock.acquire(timeout=READER_S)
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()
        with contextlib.suppress(RuntimeError):
            self.lock.release()


class Reading:
    """The reads of one client while it has these files open."""

    def __init__(
        self, database: Database, words: memoryview[int], moved: Callable[[], bool]
    ) -> None:
        self._database = database
        self._words = words
        self._world = words[WORLD]
        self._moved = moved
        self._look_at = 0.0
        self._readers = [Reader(database)]
        #: Held by the thread that opens another reader.
        self._adding = RLock()
        #: By entry: the word that counts its changes, the count when we read the row, and the row.
        self._kept: dict[Entry, tuple[int, int, tuple[Any, ...]]] = {}

    def read(
        self, entries: Sequence[Entry], now: float, patient: bool
    ) -> list[Value | None] | None:
        """Return the values, or None if they must be read inside the file mutex."""
        try:
            words, known = self._words, self._kept
            if now >= self._look_at:
                if self._moved():
                    return None
                self._look_at = now + LOOK_EVERY_S
            if words[WORLD] != self._world:
                return None
            rows: list[Any] = []
            lacking: list[int] = []
            for entry in entries:
                kept = known.get(entry)
                if kept is not None and words[kept[0]] == kept[1]:
                    rows.append(kept[2])
                else:
                    lacking.append(len(rows))
                    rows.append(None)
            if lacking and not self._select(entries, rows, lacking, patient):
                return None
            return [value_of(row, now) for row in rows]
        except (ValueError, OSError, sqlite3.Error):  # it is being closed, or needs the file mutex
            return None

    def known(self, entry: Entry, now: float) -> Value | None:
        """The value of an entry that has not changed since it was read; else None."""
        try:
            kept, words = self._kept.get(entry), self._words
            if kept is None or now >= self._look_at:
                return None
            if words[kept[0]] != kept[1] or words[WORLD] != self._world:
                return None
            return value_of(kept[2], now)
        except (ValueError, TypeError):  # it is being closed, or the key isn't valid
            return None

    def _select(
        self, entries: Sequence[Entry], rows: list[Any], lacking: list[int], patient: bool
    ) -> bool:
        """Read the missing rows; False if they must be read inside the file mutex."""
        words, wanted = self._words, [entries[at] for at in lacking]
        slots = [slot(entry) for entry in wanted]
        counts = [words[one] for one in slots]
        selected = self._rows(wanted, patient)
        if selected is None:
            return False
        for at, one, count, row in zip(lacking, slots, counts, selected, strict=True):
            rows[at] = row
            if row is not None and not count & 1 and words[one] == count:
                self._keep(entries[at], (one, count, row))
        return True

    def _rows(self, entries: Sequence[Entry], patient: bool) -> list[Any] | None:
        readers = self._readers
        for reader in readers:
            rows = reader.read(entries, 0.0)
            if rows is not None:
                return rows
        if not patient or not readers or forking():
            return None
        if len(readers) < READERS_MAX and (made := self._add(readers)) is not None:
            return made.read(entries, 0.0)
        return readers[get_ident() % len(readers)].read(entries, READER_S)

    def _add(self, readers: list[Reader]) -> Reader | None:
        """Open one more reader, unless another thread opens one, or a thread is about to fork."""
        try:
            if not self._adding.acquire(False) or forking():
                return None
            made = Reader(self._database)
            if made.fits:
                readers.append(made)
                return made
            made.close()
            return None
        finally:
            try:  # noqa: SIM105 - as in `Reader.read`
                self._adding.release()
            except RuntimeError:
                pass

    def _keep(self, entry: Entry, kept: tuple[int, int, tuple[Any, ...]]) -> None:
        if len(kept[2][-1]) > KEPT_BYTES:
            return
        self._kept.pop(entry, None)  # so that the oldest are in front
        self._kept[entry] = kept
        if len(self._kept) > KEPT_MAX:
            # An error means that another thread changes `_kept`; that thread drops a value, too.
            with contextlib.suppress(RuntimeError, StopIteration):
                self._kept.pop(next(iter(self._kept)), None)

    def locks(self) -> list[RLock]:
        """The locks that are held during a read."""
        return [self._adding, *(reader.lock for reader in self._readers)]

    def close(self) -> None:
        """Close every connection."""
        readers, self._readers = self._readers, []
        for reader in readers:
            reader.close()

    def forked(self) -> None:
        """In the child: keep the connections open, because they are the parent's."""
        for reader in self._readers:
            leak(reader.connection)
