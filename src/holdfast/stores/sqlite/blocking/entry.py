"""How a verb gets in and out: opening the store, passing the gate, and what follows outside.

A client opens its store with its first verb and keeps it open. When the files are found to be
others than those that it opened (somebody deleted them), it lets go of the old ones, opens the
new ones and does the verb again; what it held in the old ones is gone.
"""

from __future__ import annotations

import atexit
import os
import sqlite3
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from threading import RLock, get_ident
from time import clock_gettime
from typing import Any, TypeVar

from ....core.policy import PATIENCE_S
from ....errors import HoldfastError, StoreUnavailable
from ....url import StoreURL
from .database import explain
from .files import Files, Mail, enter
from .gate import Gate, Replaced
from .header import NEXT, PID, WHEN, WORLD
from .line import Poke
from .opening import Opening
from .place import database_path, label, prepare
from .session import Session

T = TypeVar("T")
#: Seconds that never jump, and that go on while the machine sleeps, where the system has them.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: Seconds between two looks whether our session's file is still in its place.
LOOK_EVERY_S = 1.0
#: Seconds that clearing up after a dead session may wait for the gate.
TIDY_S = 1.0
#: How often in a row the files may be found replaced before we give up.
REPLACED_MAX = 5
TRY = LOCK_EX | LOCK_NB
REENTERED = (
    "the embedded store was called from a signal handler or a finalizer while this thread was "
    "inside it: set a flag there, and act on it later"
)


class Entry:
    """A client's store, open or not yet, and the way into it."""

    def __init__(self, url: StoreURL, mail: Mail, patience: float = PATIENCE_S) -> None:
        self.url = url
        self.label = label(url)
        self.mail = mail
        self.patience = patience
        self.push = url.options.get("wake", "push") == "push"
        self.closed = False
        self._start()
        _entries[id(self)] = self

    def _start(self) -> None:
        """As a process begins: nothing is open and nobody inside."""
        self.lock = RLock()
        #: The thread that is inside, 0 if none: the mutex alone would let a signal handler in.
        self.inside = 0
        self.pid = os.getpid()
        #: The gate that we may stand in, while it is being opened and from then on.
        self._gate: Gate | None = None
        self._opening: Opening | None = None
        self._files: Files | None = None
        self._session: Session | None = None
        #: Sessions whose files somebody deleted, until their claims are ours under a new one.
        self._former: list[Session] = []
        self._outbox: deque[Poke] = deque()
        self._graves: set[str] = set()
        self._burying = False
        self._opened = False
        self._replaced = 0

    # -- in and out ------------------------------------------------------------------------

    def _inside(self, within: float, work: Callable[..., T], *args: Any) -> T:
        """Do a piece of work inside the gate, then outside it what follows from it."""
        try:
            answer = self._locked(within, work, args)
        except Replaced:
            return self._again(within, work, *args)
        if self._outbox or self._graves:
            self._flush()
        return answer

    def _locked(  # noqa: C901 - all that an interrupt could come between stands in one place
        self, within: float, work: Callable[..., T], args: tuple[Any, ...]
    ) -> T:
        """Do a piece of work inside the gate, at one moment of the store's clock.

        An interrupt may strike between any two lines. So the mutex is taken within the ``try``,
        and the steps of the ``finally`` are harmless when there is nothing to undo, and call
        nothing that is written in Python: an interrupt at its entry would leave the gate locked.
        """
        me = get_ident()
        if self.inside == me:
            raise StoreUnavailable(REENTERED)
        try:
            if not self.lock.acquire(False):
                within = self._queue(within)
            self.inside = me
            files = self._files or self._open(within)
            try:
                flock(files.gate.held, TRY)  # A second time, if it was opened just now.
            except BlockingIOError:
                files.gate.queue(within)
            if files.words[WORLD] != files.world:
                raise Replaced
            files.words[PID] = self.pid
            files.floats[WHEN] = now = clock_gettime(CLOCK)
            return work(files, now, *args)
        except Replaced:
            self._drop()
            raise
        except sqlite3.Error as wrong:
            raise explain(wrong, self.label, False) from wrong
        finally:
            try:
                if self.inside == me and (opened := self._files) is not None:
                    if opened.connection.in_transaction:
                        opened.connection.rollback()
                    if opened.words[PID] == self.pid:
                        opened.words[PID] = 0
            finally:
                try:
                    if self.inside == me:
                        self.inside = 0
                        if (gate := self._gate) is not None:
                            held, gate.held = gate.held, gate.fd
                            flock(held, LOCK_UN)
                finally:
                    try:  # noqa: SIM105 - suppress() is written in Python, see above
                        self.lock.release()
                    except RuntimeError:
                        pass

    def _queue(self, within: float) -> float:
        """Wait for the other threads of this client; the time that is left."""
        start = time.monotonic()
        if not self.lock.acquire(timeout=max(0.0, within)):
            gate = self._gate
            raise StoreUnavailable(
                gate.stuck(within)
                if gate is not None
                else f"{self.label} was being opened by another thread for {within:.3g} s"
            )
        return within - (time.monotonic() - start)

    def _again(self, within: float, work: Callable[..., T], *args: Any) -> T:
        """The files were replaced, and now there are others."""
        self._replaced += 1
        if self._replaced > REPLACED_MAX:
            self._replaced = 0
            raise StoreUnavailable(f"the files of {self.label} keep being replaced by others")
        answer = self._inside(within, work, *args)
        self._replaced = 0
        return answer

    # -- opening ---------------------------------------------------------------------------

    def _open(self, within: float) -> Files:
        """Open the store and stay inside its gate."""
        if self.closed:
            raise StoreUnavailable(f"this client of {self.label} is closed")
        end = time.monotonic() + within
        place = prepare(database_path(self.url), self.url.options.get("any_fs") == "yes")
        self.label = f"sqlite://{place.database}"
        self._opening = opening = Opening(place, end)
        try:
            header = enter(place, end - time.monotonic(), self._stand)
            assert self._gate is not None
            with opening:
                if self._gate.moved():
                    raise Replaced
                mail = self.mail if self.push else None
                files = Files(place, self._gate, header, mail, clock_gettime(CLOCK))
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

    def _stand(self, gate: Gate) -> None:
        self._gate = gate

    def _opened_or_not(self) -> None:
        """Whatever has become of it, nobody is opening here any more."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.close()

    def _drop(self) -> None:
        """Let go of the files; the session stays if its file does."""
        files, gate = self._files, self._gate
        self._files = self._gate = None
        self._opened_or_not()
        if files is not None:
            files.close()
        elif gate is not None:
            gate.close()

    def _look(self, files: Files, now: float) -> None:
        """See that our session is there and as we made it; make it if not.

        An interrupt may strike anywhere in here, so what says "done" comes last.
        """
        session = self._session
        if session is None or not session.intact():
            if self.closed:
                raise StoreUnavailable(f"this client of {self.label} is closed")
            files.place.make_folders()
            if session is not None:
                self._former.append(session)
            self._session = session = Session(files.place)
        files.belong(session.name)
        if self._former:
            # Our claims first, and only then the old sessions go: they must never look dead.
            files.new_post()
            for former in self._former:
                files.lone.move(former.name, session.name)
                files.cursor.execute(self._lines.sql.session_move, (former.name, session.name))
            self._former.clear()
        files.look_at = now + LOOK_EVERY_S

    def _have_session(self, files: Files, now: float) -> Session:
        """Our session, made if there is none."""
        if not files.own or self._session is None:
            self._look(files, now)
        assert self._session is not None
        return self._session

    # -- outside the gate ------------------------------------------------------------------

    def _flush(self) -> None:
        """Send the pokes, and clear away what dead sessions left behind."""
        self._send()
        if self._burying:
            return
        self._burying = True
        try:
            while self._graves:
                session = self._graves.pop()
                with suppress(HoldfastError, OSError):
                    self._inside(TIDY_S, self._bury, session)
        except KeyError:
            pass  # Another thread was quicker.
        finally:
            self._burying = False

    def _send(self) -> None:
        files = self._files
        while files is not None:
            try:
                address, claim_id, fence = self._outbox.popleft()
            except IndexError:
                return
            if not files.post.send(address, claim_id, fence):
                self._graves.add(address.rpartition(".")[0])

    def _bury(self, files: Files, now: float, session: str) -> None:
        others = files.others
        if session == files.own or not others.exists(session) or not others.dead(session):
            others.forget(session)
        elif self._slow(files, self._lines.bury, session, now):
            others.bury(session)
        else:
            self._graves.add(session)

    def _slow(self, files: Files, work: Callable[..., T], *args: object) -> T:
        """Do a piece of work in a transaction; its pokes go out only once it is committed."""
        lines, run = self._lines, files.cursor.execute
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
                self._committed()  # It was an interrupt, which came after the commit.
            raise
        return answer

    def _committed(self) -> None:
        """What the transaction has done is true now; what is left over if this is interrupted
        may be done by doing it again."""
        lines = self._lines
        lines.committed()
        while lines.pokes:
            self._outbox.append(lines.pokes.pop(0))
        self._graves.update(lines.dead)

    # -- forking ---------------------------------------------------------------------------

    def forked(self) -> None:
        """In the child of a fork: believe nothing, and touch nothing that the parent uses."""
        if self.pid == os.getpid():
            return
        self._opened_or_not()
        if self._files is not None:
            _leak(self._files.connection)
            self._files.forked()
        elif self._gate is not None:
            self._gate.forked()
        for session in (self._session, *self._former):
            if session is not None:
                session.end(unlink=False)
        self.mail.forked()
        self._start()


# -- what a fork must find and leave --------------------------------------------------------------

#: By id; looked over in one step, as other threads may open stores meanwhile.
_entries: weakref.WeakValueDictionary[int, Entry] = weakref.WeakValueDictionary()
#: Stores that a forking thread keeps still, until parent and child are two; several may fork.
_still: dict[int, list[RLock]] = {}
#: Connections of the parent that a child must never close.
_leaked: list[sqlite3.Connection] = []
#: A fork waits so many seconds for a verb that is under way in another thread.
STILL_S = 0.5


def _before() -> None:
    """Fork only between two verbs: SQLite's own mutexes and locks must be free in the child."""
    still = _still[get_ident()] = []
    locks = [entry.lock for ref in _entries.valuerefs() if (entry := ref()) is not None]
    locks.sort(key=id)  # in one order, as another thread may fork at the same time
    still.extend(lock for lock in locks if lock.acquire(timeout=STILL_S))


def _after_in_parent() -> None:
    for lock in _still.pop(get_ident(), ()):
        lock.release()


def _after_in_child() -> None:
    _still.clear()
    for entry in [ref() for ref in _entries.valuerefs()]:
        if entry is not None:
            entry.forked()


def _leak(connection: sqlite3.Connection) -> None:
    """Never close this: in a child, "the locks of the parent" is what SQLite believes to have."""
    if not _leaked:
        atexit.register(_immortalise)
    _leaked.append(connection)


def _immortalise() -> None:
    """The interpreter closes what it forgets at its end, so it must not forget."""
    with suppress(ImportError, AttributeError):
        from ctypes import py_object, pythonapi

        for connection in _leaked:
            pythonapi.Py_IncRef(py_object(connection))


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
