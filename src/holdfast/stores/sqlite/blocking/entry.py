"""How a verb gets in and out: opening the store, passing the gate, and what follows outside.

A client opens its store with its first verb and keeps it open. When the files are found to be
others than those that it opened (somebody deleted them), it lets go of the old ones, opens the
new ones and does the verb again; what it held in the old ones is gone.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, MutableSequence
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from threading import RLock, get_ident
from time import clock_gettime
from typing import Any, Protocol, TypeVar

from ....core.policy import PATIENCE_S
from ....errors import HoldfastError, StoreUnavailable
from ....url import StoreURL
from .database import Database, explain
from .gate import Gate, Replaced
from .header import LATEST, LIMIT, NEXT, PID, QUIET, WHEN, WORDS, WORLD
from .line import Poke
from .lines import Lines
from .place import database_path, prepare
from .session import Others, Session
from .wake import Post

T = TypeVar("T")
#: Seconds that never jump, and that go on while the machine sleeps, where the system has them.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: Seconds between two looks whether our session's file is still in its place.
LOOK_EVERY_S = 1.0
#: Dead sessions that are cleared away when a store is opened.
SWEEP_MAX = 64
#: Seconds that clearing up after a dead session, or closing, may wait for the gate.
TIDY_S = 1.0
#: How often in a row the files may be found replaced before we give up.
REPLACED_MAX = 5
TRY = LOCK_EX | LOCK_NB
REENTERED = (
    "the embedded store was called from a signal handler or a finalizer while this thread was "
    "inside it: set a flag there, and act on it later"
)
#: What a child of a fork must never let go of, because closing it would disturb the parent.
_leaked: list[object] = []


class Mail(Protocol):
    """Where the claims of this client listen: differs between threads and asyncio."""

    def address(self, claim_id: str, post: Post, session: str) -> str | None:
        """The address for a claim that begins to wait; None if it must poll."""
        ...

    def known(self, claim_id: str) -> str | None:
        """The address that this claim has, if it has one."""
        ...

    def close(self) -> None:
        """Remove every socket."""
        ...

    def forked(self) -> None:
        """In the child of a fork: forget the parent's."""
        ...


class Entry:
    """A client's store, open or not yet, and the way into it."""

    def __init__(self, url: StoreURL, mail: Mail, patience: float = PATIENCE_S) -> None:
        self.url = url
        self.label = str(url)
        self.mail = mail
        self.patience = patience
        self.push = url.options.get("wake", "push") == "push"
        self.closed = False
        self._start()

    def _start(self) -> None:
        """As a process begins: nothing is open and nobody inside."""
        self.lock = RLock()
        #: The thread that is inside, 0 if none: the mutex alone would let a signal handler in.
        self.inside = 0
        self.own = ""
        self.born = 0
        self._pid = os.getpid()
        self._session: Session | None = None
        self._outbox: deque[Poke] = deque()
        self._graves: set[str] = set()
        self._opened = False
        self._replaced = 0
        self._burying = False
        self._forget()

    def _forget(self) -> None:
        """Nothing is open."""
        self._gate: Gate | None = None
        self._database: Database | None = None
        self._connection: sqlite3.Connection | None = None
        self._post: Post | None = None
        self._others: Others | None = None
        self._words: MutableSequence[int] = [0] * WORDS
        self._floats: MutableSequence[float] = [0.0] * WORDS
        self._world = 0
        self._look_at = 0.0

    # -- in and out ------------------------------------------------------------------------

    def _inside(self, within: float, work: Callable[..., T], *args: Any) -> T:
        """Do a piece of work inside the gate, at one moment of the store's clock.

        An interrupt may strike between any two lines. So the mutex is taken within the ``try``,
        and the steps of the ``finally`` are harmless when there is nothing to undo, and call
        nothing that is written in Python: an interrupt at its entry would leave the gate locked.
        """
        me = get_ident()
        if self.inside == me:
            raise StoreUnavailable(REENTERED)
        replaced = False
        try:
            if not self.lock.acquire(False):
                within = self._queue(within)
            self.inside = me
            gate = self._gate
            if gate is None:
                now = self._open(within)
            else:
                try:
                    flock(gate.fd, TRY)
                except BlockingIOError:
                    gate.queue(within)
                words = self._words
                if words[WORLD] != self._world:
                    raise Replaced
                now = clock_gettime(CLOCK)
                words[PID] = self._pid
                self._floats[WHEN] = now
            answer = work(now, *args)
        except Replaced:
            self._drop()
            replaced = True
        except sqlite3.Error as wrong:
            raise explain(wrong, self.label, False) from wrong
        finally:
            try:
                if self.inside == me:
                    connection = self._connection
                    if connection is not None and connection.in_transaction:
                        connection.rollback()
            finally:
                try:
                    if self.inside == me:
                        self.inside = 0
                        self._words[PID] = 0
                        gate = self._gate
                        if gate is not None:
                            held, gate.held = gate.held, gate.fd
                            flock(held, LOCK_UN)
                finally:
                    try:
                        self.lock.release()
                    except RuntimeError:
                        pass
        if replaced:
            return self._again(within, work, *args)
        if self._outbox or self._graves:
            self._flush()
        return answer

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

    def _open(self, within: float) -> float:
        """Open the store and stay inside its gate; the time by its clock."""
        if self.closed:
            raise StoreUnavailable(f"this client of {self.label} is closed")
        place = prepare(database_path(self.url), self.url.options.get("any_fs") == "yes")
        self.label = f"sqlite://{place.database}"
        end = time.monotonic() + within
        try:
            self._gate = gate = Gate(place)
            gate.enter(end - time.monotonic())
            if gate.moved():
                raise Replaced
            header = gate.map()
            self._database = database = Database(place, header)
            self._connection = database.connection
            self._cursor = database.connection.cursor()
            self._post = Post(place)
        except BaseException:
            self._drop()
            raise
        self._others = Others(place)
        self._lines = Lines(self._cursor.execute, self._others, self, self.patience)
        self._words, self._floats = header.words, header.floats
        self._world = self._words[WORLD]
        if self._opened:
            self.born = self._words[NEXT]
        self._opened = True
        self._words[PID] = self._pid
        with contextlib.suppress(OSError):
            others = self._others
            dead = (n for n in others.names() if n != self.own and others.dead(n))
            self._graves.update(name for name, _ in zip(dead, range(SWEEP_MAX), strict=False))
        return clock_gettime(CLOCK)

    def _drop(self) -> None:
        """Let go of the files; the session stays if its file does."""
        gate, database, post, others = self._gate, self._database, self._post, self._others
        self._forget()
        if others is not None:
            others.close()
        if post is not None:
            post.close()
        if database is not None:
            database.close()
        if gate is not None:
            gate.close()

    # -- what the verbs need (see lines.World) ---------------------------------------------

    @property
    def quiet(self) -> float:
        """Nobody is served before this time."""
        return self._floats[QUIET]

    def ticket(self) -> int:
        """The next ticket: never given before, a power cut included."""
        words = self._words
        ticket = words[NEXT]
        if ticket >= words[LIMIT]:
            self._reserve()
        words[NEXT] = ticket + 1
        return ticket

    def _reserve(self) -> None:
        database = self._database
        assert database is not None
        database.set_meta("limit", str(database.header.reserve()))

    def note_expiry(self, expires: float) -> None:
        """A lease until then is about to be given."""
        if expires > self._floats[LATEST]:
            self._floats[LATEST] = expires

    def address(self, claim_id: str) -> str | None:
        """Where this claim listens, from now on."""
        if not self.push or self._post is None:
            return None
        return self.mail.address(claim_id, self._post, self.own)

    def known_address(self, claim_id: str) -> str | None:
        """Where this claim listens, if it does."""
        return self.mail.known(claim_id)

    def _look(self, now: float) -> None:
        """See that our session is there and as we made it; make it if not."""
        self._look_at = now + LOOK_EVERY_S
        session = self._session
        if session is not None and session.intact():
            return
        database = self._database
        assert database is not None
        place = prepare(database.path, any_fs=True)
        self._session = fresh = Session(place)
        self.own = fresh.name
        if session is not None:
            # Our claims first, then the old file: they must never look dead.
            post, self._post = self._post, Post(place)
            if post is not None:
                post.close()
            self._cursor.execute(self._lines.sql.session_move, (session.name, fresh.name))
            session.end(unlink=False)

    def _have_session(self, now: float) -> Session:
        """Our session, made if there is none."""
        if self._session is None:
            self._look(now)
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
                with contextlib.suppress(HoldfastError, OSError):
                    self._inside(TIDY_S, self._bury, session)
        except KeyError:
            pass  # Another thread was quicker.
        finally:
            self._burying = False

    def _send(self) -> None:
        post = self._post
        while post is not None:
            try:
                address, claim_id, fence = self._outbox.popleft()
            except IndexError:
                return
            if not post.send(address, claim_id, fence):
                self._graves.add(address.rpartition(".")[0])

    def _bury(self, now: float, session: str) -> None:
        others = self._others
        assert others is not None
        if not others.exists(session) or not others.dead(session):
            others.forget(session)
        elif self._slow(self._lines.bury, session, now):
            others.bury(session)
        else:
            self._graves.add(session)

    def _slow(self, work: Callable[..., T], *args: object) -> T:
        """Do a piece of work in a transaction; its pokes go out only once it is committed."""
        connection, lines, run = self._connection, self._lines, self._cursor.execute
        assert connection is not None
        lines.pokes.clear()
        lines.dead.clear()
        run("BEGIN IMMEDIATE")
        try:
            answer = work(*args)
            run("COMMIT")
        except BaseException:
            connection.rollback()
            raise
        self._outbox.extend(lines.pokes)
        self._graves.update(lines.dead)
        return answer

    def forked(self) -> None:
        """In the child of a fork: believe nothing, and touch nothing that the parent uses.

        Closed are our copies of descriptors whose lock would otherwise outlive the parent: the
        gate, the guard and the session. The connection is kept for ever, because closing it
        would disturb the parent's (SQLite's documentation says so, as above).
        """
        _leaked.append((self._connection, self._cursor if self._opened else None))
        if self._gate is not None:
            self._gate.forked()
        if self._database is not None:
            self._database.forked()
        if self._others is not None:
            self._others.close()
        if self._session is not None:
            self._session.end(unlink=False)
        self.mail.forked()
        self._start()
