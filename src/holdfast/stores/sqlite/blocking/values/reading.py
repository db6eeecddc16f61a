"""Reading values without the file mutex: by connections that only read, and without these where
nothing has changed.

A read must not wait for writers, so it has its own connections, each for one thread at a time.
Beyond that, what was read is kept together with a number from the mapped page, which every writer
changes: to an odd one before his transaction is committed, and to the next even one afterwards. As
long as the number is the same, so is the row: then a read asks nobody, and still sees whatever was
stored or invalidated before it began, by any process.
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

#: Maximum number of threads of one client that read at once; more of them wait for one another.
READERS_MAX = 4
#: ... for these seconds at most, and then read through the file mutex.
READER_S = 0.25
#: Maximum number of values that a client keeps after it has read them, and bytes of each.
KEPT_MAX = 1024
KEPT_BYTES = 8 * 1024
#: The files are looked for in their place so often, in seconds; a verb that writes always looks.
LOOK_EVERY_S = 1.0
#: A reader that would have to wait reads through the file mutex instead.
BUSY_S = 0.0

_VALUE = statements().value


def slot(entry: Entry) -> int:
    """The word that counts the changes of an entry; others may share it."""
    text = f"{entry.guard}\0{entry.key}".encode("utf-8", "surrogatepass")
    return CHANGES + zlib.crc32(text) % (WORDS - CHANGES)


class Changing:
    """Says in the mapped page that entries change, for the length of a commit."""

    def __init__(self, words: memoryview[int], entries: Iterable[Entry]) -> None:
        self._words = words
        self._slots = {slot(entry) for entry in entries}

    def __enter__(self) -> None:
        words = self._words
        for at in self._slots:
            words[at] = (words[at] + 1) & LOW | 1  # odd, also after one who was killed here

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
        """Their rows; None if it serves another thread for longer than ``seconds``, or if somebody
        is about to fork: no thread may be inside SQLite then.

        Each is a separate statement, which is brought to its end at once: one that is left open
        would show what it has seen at first for as long as it is open.
        """
        try:
            if not self.lock.acquire(seconds > 0, seconds if seconds > 0 else -1):
                return None
            if forking():  # now that we have it: a thread that forks waits for it, or we see that
                return None
            return [self.run(_VALUE, entry).fetchone() for entry in entries]
        finally:
            try:  # noqa: SIM105 - suppress() is written in Python: an interrupt could come there
                self.lock.release()
            except RuntimeError:
                pass

    def close(self) -> None:
        """Close it, when nobody reads any more."""
        self.lock.acquire(timeout=READER_S)
        with contextlib.suppress(sqlite3.Error):
            self.connection.close()
        with contextlib.suppress(RuntimeError):
            self.lock.release()


class Reading:
    """How one client reads, as long as it has these files open."""

    def __init__(
        self, database: Database, words: memoryview[int], moved: Callable[[], bool]
    ) -> None:
        self._database = database
        self._words = words
        self._world = words[WORLD]
        self._moved = moved
        self._look_at = 0.0
        self._readers = [Reader(database)]
        #: Taken by the thread that opens one more.
        self._adding = RLock()
        #: By entry: the word that counts its changes, its count when we read, and the row.
        self._kept: dict[Entry, tuple[int, int, tuple[Any, ...]]] = {}

    def read(
        self, entries: Sequence[Entry], now: float, patient: bool
    ) -> list[Value | None] | None:
        """The values, or None where they are to be read through the file mutex."""
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
        except (ValueError, OSError, sqlite3.Error):  # it is being closed, or wants a closer look
            return None

    def known(self, entry: Entry, now: float) -> Value | None:
        """The value of an entry that nothing was changed of since it was read; else None."""
        try:
            kept, words = self._kept.get(entry), self._words
            if kept is None or now >= self._look_at:
                return None
            if words[kept[0]] != kept[1] or words[WORLD] != self._world:
                return None
            return value_of(kept[2], now)
        except (ValueError, TypeError):  # it is being closed, or that is no key at all
            return None

    def _select(
        self, entries: Sequence[Entry], rows: list[Any], lacking: list[int], patient: bool
    ) -> bool:
        """Put the rows in that are lacking; False if that can't be done here."""
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
        """One more reader, unless another thread opens one, or somebody is about to fork."""
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
        self._kept.pop(entry, None)  # so that the oldest stand in front
        self._kept[entry] = kept
        if len(self._kept) > KEPT_MAX:
            # Another thread may change it just now, and then drops one, too.
            with contextlib.suppress(RuntimeError, StopIteration):
                self._kept.pop(next(iter(self._kept)), None)

    def locks(self) -> list[RLock]:
        """They are taken while somebody reads."""
        return [self._adding, *(reader.lock for reader in self._readers)]

    def close(self) -> None:
        """Close every connection."""
        readers, self._readers = self._readers, []
        for reader in readers:
            reader.close()

    def forked(self) -> None:
        """In the child: they are the parent's, and never closed."""
        for reader in self._readers:
            leak(reader.connection)
