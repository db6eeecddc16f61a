"""Entry and exit of a verb: opening the store, taking the file mutex, and the steps after it.

A client opens its store with its first verb and keeps it open. If the files were deleted and
replaced since, the client closes the old files, opens the new ones and does the verb again; its
holds in the old files are lost.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ....core.policy import PATIENCE_S
from ....errors import HoldfastError, StoreUnavailable
from ....runtime.blocking import boottime
from ....url import StoreURL
from .files import Files, Mail, enter
from .gate import Damaged, Replaced
from .header import LIMIT, NEXT, RESERVED, WHEN
from .opening import Opening
from .owned import make_folders
from .place import database_path, prepare
from .session import Session
from .way import Way

T = TypeVar("T")
#: Seconds between two checks that our session's file is still in its place.
LOOK_EVERY_S = 1.0
#: Maximum seconds that clearing up after a dead session waits for the file mutex.
TIDY_S = 1.0
#: Maximum seconds that one verb spends on clearing up.
BURY_S = 0.1


class Entry(Way[Files]):
    """A client's access to its store, which may not be open yet."""

    def __init__(self, url: StoreURL, mail: Mail, patience: float = PATIENCE_S) -> None:
        self.mail = mail
        self.patience = patience
        super().__init__(url)

    def _start(self) -> None:
        super()._start()
        self._session: Session | None = None
        #: Sessions whose files were deleted, until their claims are moved to a new session.
        self._former: list[Session] = []
        self._burying = False
        #: A block of tickets that this client must put on the disk: its files, and its limit.
        self._promised: tuple[Files, int] | None = None
        self._opened = False

    # -- opening ---------------------------------------------------------------------------

    def _open(self, within: float) -> Files:
        """Open the store and keep its file mutex."""
        if self.closed:
            raise StoreUnavailable(f"this client of {self.label} is closed")
        end = boottime() + within
        place = prepare(database_path(self.url), self.url.options.get("network_fs") == "yes")
        self.label = f"sqlite://{place.database}"
        self._opening = opening = Opening(place, end)
        try:
            header = enter(place, end - boottime(), self._stand)
            assert self._gate is not None
            with opening:
                if self._gate.moved():
                    raise Replaced
                mail = self.mail if self.push else None
                files = Files(place, self._gate, header, mail, boottime())
        except BaseException:
            self._drop()
            raise
        self._lines = files.lines(self.patience)
        if self._session is not None:
            files.belong(self._session.name)
        if self._opened:
            files.born = files.words[NEXT]
        self._opened = True
        self._files = files
        self._graves.update(files.dead_sessions())
        return files

    def _look(self, files: Files, now: float) -> None:
        """Check that our session's file is in its place; make a new session if it isn't.

        An interrupt may come anywhere in here, so the assignments that mean "done" are last.
        """
        session = self._session
        if session is None or not session.intact():
            if self.closed:
                raise StoreUnavailable(f"this client of {self.label} is closed")
            make_folders(files.place)
            if session is not None:
                self._former.append(session)
            self._session = session = Session(files.place)
        files.belong(session.name)
        if self._former:
            # Move our claims before the old sessions end, so that no claim looks dead.
            files.new_post()
            for former in self._former:
                files.lone.move(former.name, session.name)
                files.cursor.execute(self._lines.sql.session_move, (former.name, session.name))
            self._former.clear()
        files.look_at = now + LOOK_EVERY_S

    def _have_session(self, files: Files, now: float) -> Session:
        """Our session; made if there is none."""
        if not files.own or self._session is None:
            self._look(files, now)
        assert self._session is not None
        return self._session

    # -- outside the file mutex ------------------------------------------------------------

    def _flush(self) -> None:
        """Send the wake-ups, and clear up after dead sessions for at most `BURY_S`; the next verb
        continues."""
        self._send()
        if self._burying or not self._graves:
            return
        self._burying = True
        end = boottime() + BURY_S
        try:
            while self._graves and boottime() < end:
                session = self._graves.pop()
                with suppress(HoldfastError, OSError):
                    self._inside(TIDY_S, self._bury, session)
        except KeyError:
            pass  # Another thread took the last session.
        finally:
            self._burying = False

    def _send(self) -> None:
        files = self._files
        if files is None:
            return
        for address, claim_id, fence in self._unsent():
            if not files.post.send(address, claim_id, fence):
                self._graves.add(address.rpartition(".")[0])

    def _low(self, files: Files) -> None:
        """Plan the next block of tickets, because half of the reserved ones are given.

        This client puts the block on the disk, unless another client already does so. This happens
        outside the file mutex, so that no other client waits. If the sync fails, or this client
        dies, the client that finds no ticket left puts a block on the disk inside the file mutex.
        """
        words = files.words
        if words[RESERVED] == words[LIMIT]:
            self._promised = files, files.header.promise()

    def _reserve(self) -> None:
        """Put the promised tickets on the disk; called outside the file mutex."""
        promised, self._promised = self._promised, None
        if promised is None:
            return
        files, limit = promised
        with suppress(HoldfastError, OSError, ValueError):  # the files may be closed meanwhile
            files.header.sync()
            self._inside(TIDY_S, self._reserved, files, limit)

    def _reserved(self, files: Files, now: float, synced: Files, limit: int) -> None:
        """Allow the promised tickets to be given, if ``synced`` are still the open files."""
        if files is synced:
            files.reserved(limit)

    def _bury(self, files: Files, now: float, session: str) -> None:
        others = files.others
        if session == files.own or not others.exists(session) or not others.dead(session):
            others.forget(session)
        elif self._slow(files, self._lines.bury, session, now):
            others.bury(session)
        else:
            self._graves.add(session)

    def _slow(self, files: Files, work: Callable[..., T], *args: object) -> T:
        """Do a piece of work in a transaction; its wake-ups are sent only after the commit."""
        lines, run = self._lines, files.cursor.execute
        if files.header.damaged(files.floats[WHEN], True):
            raise Damaged
        lines.begin()
        run("BEGIN IMMEDIATE")
        committing = False
        try:
            answer = work(*args)
            committing = True
            run("COMMIT")
            self._committed()
        except BaseException as wrong:
            if files.connection.in_transaction:
                files.connection.rollback()
                lines.rolled_back()
            elif committing and not isinstance(wrong, sqlite3.Error):
                self._committed()  # An interrupt came after the commit.
            raise
        return answer

    def _committed(self) -> None:
        """Apply the effects of the committed transaction; after an interrupt, this may run
        again."""
        lines = self._lines
        lines.committed()
        while lines.pokes:
            self._outbox.append(lines.pokes.pop(0))
        self._graves.update(lines.dead)

    # -- forking ---------------------------------------------------------------------------

    def _abandon(self) -> None:
        super()._abandon()
        for session in (self._session, *self._former):
            if session is not None:
                session.end(unlink=False)
        self.mail.forked()
