"""An *annex*: separate files next to the locks, for serial queues or for the values of guards.

Each annex has its own database, file mutex, sessions and sockets, so that no lock waits for its
writes. This module has their common part: opening and closing the files, and listing waiters.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from ....errors import HoldfastError, StoreUnavailable
from ....runtime.blocking import boottime
from ....url import StoreURL
from . import ears
from .database import MOVE_AWAY, Database, explained
from .ears import Ear, Ears
from .files import enter
from .gate import Gate, Replaced
from .header import WORLD, Header
from .opening import Opening
from .owned import make_folders
from .paths import Place
from .place import database_path, prepare
from .session import Others, Session
from .wake import Post
from .way import Way

#: Maximum number of dead sessions that are removed when the files are opened.
SWEEP_MAX = 64
#: Seconds between two checks that our session's file is still in its place.
LOOK_EVERY_S = 1.0


class Mail(Protocol):
    """The sockets for wake-ups of this client's waiters; they differ for threads and asyncio."""

    def address(self, claim_id: str, post: Post, session: str) -> str | None:
        """The address for a new waiter; None if the waiter must poll."""
        ...

    def release(self, claim_id: str) -> None:
        """Free the socket of a waiter."""
        ...

    def close(self) -> None:
        """Remove every socket."""
        ...

    def forked(self) -> None:
        """In the child of a fork: forget the parent's sockets."""
        ...


D = TypeVar("D", bound=Database)


class AnnexFiles(Generic[D]):
    """The file mutex, its header, the database and the other files; see ``way.Room``."""

    #: The remedy for damaged files.
    remedy = MOVE_AWAY

    def __init__(self, place: Place, gate: Gate, header: Header, now: float) -> None:
        self.place = place
        self.gate = gate
        self.header = header
        self.words = header.words
        self.floats = header.floats
        self.others = Others(place)
        self.post = Post(place)
        self.ears = Ears(place)
        try:
            with explained(place.database, True, self.remedy):
                self.database = self._agree(header, now)
                self.connection: sqlite3.Connection = self.database.connection
                self.run: Callable[..., sqlite3.Cursor] = self.connection.cursor().execute
                self._settle(now)
        except BaseException:
            self._unopened()
            raise
        self.world = self.words[WORLD]
        #: The name of our session; empty until it is needed.
        self.own = ""
        self.look_at = 0.0

    @abstractmethod
    def _agree(self, header: Header, now: float) -> D:
        """Open the database, so that it agrees with the file mutex; else raise."""

    @abstractmethod
    def empty(self, session: str) -> bool:
        """True if this session has no delivery and no refresh lease."""

    def _settle(self, now: float) -> None:
        """A hook for subclasses; called when the database is open."""

    def _unopened(self) -> None:
        database = getattr(self, "database", None)
        if database is not None:
            database.close()
        self.header.close()

    def moved(self) -> bool:
        """Do the paths lead to other files now? Then other clients don't see our changes."""
        return self.replaced() or self.gate.moved()

    def replaced(self) -> bool:
        """Does the database's path lead to another file? Then no client finds our changes."""
        try:
            return os.stat(self.place.database).st_ino != self.database.inode
        except OSError:
            return True

    def sweep(self) -> None:
        """Remove the files of dead clients that have no delivery and no refresh lease."""
        left = SWEEP_MAX
        with contextlib.suppress(OSError):
            for name in self.others.names():
                if left and name != self.own and self.others.ended(name):
                    self.bury(name)
                    left -= 1

    def new_post(self) -> None:
        """Open the folder of the sockets again, because it may have been replaced."""
        self.post = Post(self.place)

    def bury(self, session: str) -> None:
        """Remove the files of an ended session, unless others must recover its jobs or leases."""
        if self.empty(session):
            self.others.bury(session)
            self.ears.bury(session)

    def close(self) -> None:
        """Close everything; the file mutex is last, because it keeps new clients out meanwhile."""
        self.others.close()
        self.database.close()
        self.header.close()
        self.gate.close()

    def forked(self) -> None:
        """In the child: close our copies of the parent's descriptors. SQLite's descriptors stay
        open."""
        self.gate.forked()
        self.database.forked()
        self.others.close()


F = TypeVar("F", bound=AnnexFiles[Any])


class AnnexEngine(Way[F]):
    """One client's access to an annex. Its first verb opens the files."""

    #: The text that is added to the path of the locks, and the name of the data in messages.
    suffix = what = ""

    def __init__(self, url: StoreURL, mail: Mail) -> None:
        self.mail = mail
        super().__init__(url)

    def _start(self) -> None:
        super()._start()
        self._session: Session | None = None
        #: The waiters of this client by their id, and the numbers that are used as their names.
        self._ears: dict[str, Ear] = {}
        self._numbers = itertools.count(1)

    @abstractmethod
    def _made(self, place: Place, gate: Gate, header: Header, now: float) -> F:
        """Open the files."""

    # -- waiters -----------------------------------------------------------------------------

    def _listen(self, files: F, topic: str, waiter: str, now: float) -> None:
        """List this waiter, so that other clients can wake it by its topic."""
        if not self.push:
            return
        ear = self._ears.get(waiter)
        if ear is not None and ear.session == files.own:
            files.ears.listen(ear)
            return
        self.unlisten(waiter)
        name = str(next(self._numbers))
        address = self.mail.address(name, files.post, files.own)
        if address is not None:
            # The waiter is recorded before its file is made, so that an interrupt leaves no unknown
            # file.
            ear = self._ears[waiter] = files.ears.ear(topic, now, address, name)
            files.ears.listen(ear)

    def ear(self, waiter: str) -> str | None:
        """Return the name in the wake-ups for this waiter; None if the waiter must poll."""
        found = self._ears.get(waiter)
        return None if found is None else found.name

    def unlisten(self, waiter: str) -> None:
        """Remove a waiter; never fails, and doesn't take the file mutex."""
        found = self._ears.get(waiter)
        if found is not None:
            ears.close(found)
            self.mail.release(found.name)
            self._ears.pop(waiter, None)  # last, because an interrupt may come before any step

    # -- opening and closing -----------------------------------------------------------------

    def _open(self, within: float) -> F:
        """Open the files and keep their file mutex."""
        if self.closed:
            raise StoreUnavailable(f"this client of {self.label} is closed")
        end = boottime() + within
        path = database_path(self.url) + self.suffix
        place = prepare(path, self.url.options.get("network_fs") == "yes")
        self.label = f"the {self.what} of sqlite://{place.database.removesuffix(self.suffix)}"
        self._opening = opening = Opening(place, end)
        try:
            header = enter(place, end - boottime(), self._stand)
            assert self._gate is not None
            with opening:
                if self._gate.moved():
                    raise Replaced
                files = self._made(place, self._gate, header, boottime())
        except BaseException:
            self._drop()
            raise
        if self._session is not None:
            files.own = self._session.name
        self._files = files
        files.sweep()
        return files

    def _have_session(self, files: F, now: float) -> str:
        """Our session; made if there is none, or if its file was deleted."""
        session = self._session
        if session is None or (now >= files.look_at and not session.intact()):
            if self.closed:
                raise StoreUnavailable(f"this client of {self.label} is closed")
            make_folders(files.place)
            self._session = made = Session(files.place)
            files.new_post()
            files.own = made.name
            if session is not None:
                session.end(unlink=False)
            session = made
        if now >= files.look_at:
            files.look_at = now + LOOK_EVERY_S
        return session.name

    def close(self, within: float) -> None:
        """End the session; its remaining deliveries or leases can be recovered at once."""
        if self.closed:
            return
        ended = False
        try:
            for waiter in list(self._ears):
                self.unlisten(waiter)
            if self._files is not None:
                ended = self._inside(within, self._settled)
                self.closed = True
                self._inside(within, self._shut)
        except HoldfastError:
            pass  # The kernel ends the session now: others will see that.
        finally:
            self.closed = True
            self.mail.close()
            session, self._session = self._session, None
            if session is not None:
                session.end(unlink=ended)

    def _settled(self, files: F, now: float) -> bool:
        """True if our session has no delivery and no refresh lease."""
        return files.empty(files.own)

    def _shut(self, files: F, now: float) -> None:
        """Close the database while no other client can be opening it."""
        self._drop()

    def _abandon(self) -> None:
        super()._abandon()
        if self._session is not None:
            self._session.end(unlink=False)
        self.mail.forked()
