"""The verbs of refresh guards as one client runs them, on the caller's thread.

A read usually takes no file mutex (see ``reading.py``). Every other verb takes the file mutex of
the values once, for one transaction.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from threading import RLock
from typing import TypeVar

from .....core.guard.model import (
    Abandon,
    Begun,
    Busy,
    Entry,
    EntryRecord,
    Failing,
    Finish,
    GuardCounts,
    GuardRecord,
    Prolong,
    Value,
    Wish,
)
from .....core.model import Gone, Held
from .....errors import StoreUnavailable
from .....runtime.blocking import boottime
from ..annex import AnnexEngine
from ..database import full
from ..gate import Gate, Replaced
from ..header import Header
from ..odd import UNREADABLE, unreadable
from ..paths import Place
from ..place import VALUES
from ..session import NONE, Alarm
from ..sql import guards as statements
from . import look
from .files import ValueFiles
from .reading import Changing
from .rows import topic, value_of
from .values import Values

T = TypeVar("T")
log = logging.getLogger("holdfast")
_SQL = statements()


class ValueEngine(AnnexEngine[ValueFiles]):
    """One client's access to one database of values, which its first verb opens."""

    suffix = VALUES
    what = "values"

    def _start(self) -> None:
        super()._start()
        #: By the id of a request that waits: the session whose end the request watches.
        self._holders: dict[str, str] = {}

    def _made(self, place: Place, gate: Gate, header: Header, now: float) -> ValueFiles:
        return ValueFiles(place, gate, header, now)

    # -- reading -----------------------------------------------------------------------------

    def known(self, entry: Entry) -> Value | None:
        """Return the value if nothing has changed since it was read; else None."""
        files = self._files
        return None if files is None else files.reading.known(entry, boottime())

    def glance(self, entries: Sequence[Entry], patient: bool = False) -> list[Value | None] | None:
        """Return the values if this needs no file mutex; else None. ``patient``: the call may
        wait."""
        files = self._files
        if files is None:
            return None
        return files.reading.read(entries, boottime(), patient)

    def read(self, entries: Sequence[Entry], within: float) -> list[Value | None]:
        """See :meth:`holdfast.core.guard.ports.Guards.read`."""
        found = self.glance(entries, True)
        return self._inside(within, self._read, entries) if found is None else found

    def _read(self, files: ValueFiles, now: float, entries: Sequence[Entry]) -> list[Value | None]:
        if files.moved():
            raise Replaced
        return [value_of(files.run(_SQL.value, entry).fetchone(), now) for entry in entries]

    # -- the other verbs ---------------------------------------------------------------------

    def begin(self, wish: Wish, within: float) -> Begun:
        """See :meth:`holdfast.core.guard.ports.Guards.begin`."""

        def work(values: Values, files: ValueFiles) -> Begun:
            session = self._have_session(files, values.now)
            begun = values.begin(wish, session, files.others.dead)
            if values.dead:
                files.bury(values.dead)
            if wish.wait and isinstance(begun, (Busy, Failing)):
                self._listen(files, topic(wish.entry), wish.id, values.now)
                self._holders[wish.id] = values.holder
            else:
                self.unlisten(wish.id)
            return begun

        return self._do(within, work)

    def finish(self, finish: Finish, within: float) -> bool:
        """See :meth:`holdfast.core.guard.ports.Guards.finish`.

        A full disk doesn't accept the value. Then the refresh lease ends without a value, so that
        no client waits for it.
        """
        try:
            return self._do(within, lambda values, _: values.finish(finish), (finish.entry,))
        except StoreUnavailable as wrong:
            cause = wrong.__cause__
            if not isinstance(cause, sqlite3.Error) or not full(cause):
                raise
            log.warning("%s was computed, but not stored: %s", finish.entry, wrong)
            self.abandon(Abandon(finish.entry, finish.id, 0.0), within)
            return False

    def abandon(self, abandon: Abandon, within: float) -> bool:
        """See :meth:`holdfast.core.guard.ports.Guards.abandon`."""

        def work(values: Values, _: ValueFiles) -> bool:
            self.unlisten(abandon.id)
            return values.abandon(abandon)

        return self._do(within, work)

    def prolong(self, prolongs: Sequence[Prolong], within: float) -> list[Held | Gone | Exception]:
        """See :meth:`holdfast.core.guard.ports.Guards.prolong`."""

        def work(values: Values, files: ValueFiles) -> list[Held | Gone | Exception]:
            return [_alone(self.label, values, files, one) for one in prolongs]

        return self._do(within, work)

    def invalidate(self, entries: Sequence[Entry], within: float) -> list[bool]:
        """See :meth:`holdfast.core.guard.ports.Guards.invalidate`."""
        there = [False] * len(entries)

        def work(values: Values, _: ValueFiles) -> list[bool]:
            # If the files were replaced, `work` runs again: a value in the old files counts, too.
            for at, entry in enumerate(entries):
                there[at] = values.invalidate(entry) or there[at]
            return there

        return self._do(within, work, entries)

    def tally(self, guard: str, tally: GuardCounts, within: float) -> None:
        """See :meth:`holdfast.core.guard.ports.Guards.tally`."""
        self._do(within, lambda values, _: values.tally(guard, tally))

    def look(self, entry: Entry, within: float) -> EntryRecord:
        """See :meth:`holdfast.core.guard.ports.Guards.look`."""
        return self._do(within, lambda values, files: look.look(files.run, entry, values.now))

    def survey(self, prefix: str, exact: bool, within: float) -> list[GuardRecord]:
        """See :meth:`holdfast.core.guard.ports.Guards.survey`."""
        return self._do(
            within, lambda values, files: look.survey(files.run, prefix, exact, values.now)
        )

    # -- a transaction -----------------------------------------------------------------------

    def _do(
        self,
        within: float,
        work: Callable[[Values, ValueFiles], T],
        changed: Sequence[Entry] = (),
    ) -> T:
        """Do one transaction inside the file mutex; then wake the waiters of its ended leases.
        ``changed``: the entries whose values it changes."""
        answer: T = self._inside(within, self._transact, work, changed)
        return answer

    def _transact(
        self,
        files: ValueFiles,
        now: float,
        work: Callable[[Values, ValueFiles], T],
        changed: Sequence[Entry],
    ) -> T:
        if files.moved():
            raise Replaced
        try:
            answer = self._commit(files, now, work, changed)
        except sqlite3.OperationalError as wrong:
            if not full(wrong):
                raise
            # On a full disk, values can be invalidated and refresh leases ended: the log is copied
            # back into the database, then written from its beginning again, which takes no space.
            files.connection.rollback()
            files.run("PRAGMA wal_checkpoint(RESTART)").fetchall()
            answer = self._commit(files, now, work, changed)
        # This check is last, because a write to replaced files is lost.
        if files.moved():
            raise Replaced
        return answer

    def _commit(
        self,
        files: ValueFiles,
        now: float,
        work: Callable[[Values, ValueFiles], T],
        changed: Sequence[Entry],
    ) -> T:
        values = Values(files.run, now, files.fence)
        files.run("BEGIN")
        answer = work(values, files)
        if values.ended:  # before the commit, because an interrupt may follow it
            self._outbox.append([topic(entry) for entry in values.ended])
        with Changing(files.words, changed):
            files.run("COMMIT")
        return answer

    def reading(self) -> list[RLock]:
        """The locks that reads take."""
        files = self._files
        return [] if files is None else files.reading.locks()

    # -- waiters -----------------------------------------------------------------------------

    def alarm(self, session: str) -> Alarm:
        """A descriptor that hangs up when a session ends; see ``session.Others.alarm``."""
        files = self._files
        return NONE if files is None else files.others.alarm(session)

    def holder(self, wish: str) -> str:
        """Return the session that holds the refresh lease for which this request waits; empty if
        there is none."""
        return self._holders.get(wish, "")

    def unlisten(self, waiter: str) -> None:
        """Remove a waiter; never fails, and doesn't take the file mutex."""
        self._holders.pop(waiter, None)
        super().unlisten(waiter)

    def _flush(self) -> None:
        """Wake the waiters for entries whose refresh lease has ended."""
        for topics in self._unsent():
            files = self._files
            if files is not None:
                files.ears.rouse_all(topics, files.post)


def _alone(
    label: str, values: Values, files: ValueFiles, prolong: Prolong
) -> Held | Gone | Exception:
    """Do one renewal of a batch; its error doesn't affect the others."""
    files.run("SAVEPOINT one")
    try:
        answer: Held | Gone | Exception = values.prolong(prolong)
    except UNREADABLE as wrong:
        files.run("ROLLBACK TO one")
        answer = unreadable(wrong, label)
    files.run("RELEASE one")
    return answer
