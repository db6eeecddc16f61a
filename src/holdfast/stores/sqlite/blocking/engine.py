"""The verbs as one client runs them, on the caller's thread.

The uncontended pair is one statement each, straight through ``_join`` and ``_leave``. Whatever
that statement doesn't cover begins a transaction and goes through ``Lines``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from ....core.model import (
    Claim,
    Held,
    Joined,
    Keep,
    Leave,
    LineRecord,
    Mismatch,
    Standing,
    Waiting,
)
from ....errors import ConfigError, StoreUnavailable
from .database import full
from .entry import TIDY_S, Entry
from .gate import Replaced
from .header import LATEST, LIMIT, NEXT, QUIET
from .session import Session
from .sql import verbs

T = TypeVar("T")
#: Seconds that a look at one row may wait for the gate.
PEEK_S = 0.05
#: What a claim that SQLite cannot take in raises: a number too large, a lone surrogate.
UNREADABLE = (ValueError, TypeError, OverflowError, sqlite3.InterfaceError, sqlite3.DataError)
_SQL = verbs()
_JOIN, _LEAVE, _KEEP = _SQL.join_first, _SQL.leave_last, _SQL.keep_held


class Engine(Entry):
    """One client's way into one database. Opened by the first verb."""

    def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """See :meth:`holdfast.core.ports.Store.join`."""
        return self._inside(within, self._join, claim, wait)

    def _join(self, now: float, claim: Claim, wait: bool) -> Joined:
        if now >= self._look_at:
            self._look(now)
        words, floats = self._words, self._floats
        answer: Joined
        if now >= floats[QUIET]:
            ticket = words[NEXT]
            if ticket >= words[LIMIT]:
                self._reserve()
            words[NEXT] = ticket + 1
            name, kind, capacity, weight, ttl, owner, meta = claim.spec
            if now + ttl > floats[LATEST]:
                floats[LATEST] = now + ttl
            cursor = self._cursor
            cursor.execute(
                _JOIN,
                # str(): SQLite's adapter takes only the exact type by its quick way.
                (name, ticket, claim.id, weight, ttl, now, self.own, owner, meta, str(kind),
                 capacity),
            )  # fmt: skip
            if cursor.rowcount == 1:
                answer = Held(ticket, ttl)
            else:
                words[NEXT] = ticket  # Not given to anybody, and we are alone in here.
                answer = self._slow(self._lines.join, claim, wait, now)
        else:
            answer = self._slow(self._lines.join, claim, wait, now)
        # Last, because a claim in files that are no longer the store's is worth nothing.
        if self._gate.moved():
            raise Replaced
        return answer

    def keep(self, keeps: Sequence[Keep], within: float) -> list[Standing | Exception]:
        """See :meth:`holdfast.core.ports.Store.keep`."""
        return self._inside(within, self._roomy, self._keep, keeps)

    def _keep(self, now: float, keeps: Sequence[Keep]) -> list[Standing | Exception]:
        if len(keeps) == 1:
            held = self._renew(keeps[0], now)
            answers = [held] if held else self._slow(self._keep_all, keeps, now)
        else:
            answers = self._slow(self._keep_all, keeps, now)
        if self._gate.moved():
            raise Replaced
        return answers

    def _keep_all(self, keeps: Sequence[Keep], now: float) -> list[Standing | Exception]:
        return [self._renew(keep, now) or self._keep_one(keep, now) for keep in keeps]

    def _renew(self, keep: Keep, now: float) -> Held | None:
        """The plain renewal of a held claim, in one statement; None if it is anything else."""
        ttl = keep.ttl
        if keep.new_id or keep.weight or keep.detach:
            return None
        if now + ttl > self._floats[LATEST]:
            self._floats[LATEST] = now + ttl
        cursor = self._cursor
        try:
            cursor.execute(
                _KEEP, (keep.claim.spec.name, keep.ticket, keep.claim.id, now, ttl)
            )
        except UNREADABLE:
            return None
        return Held(keep.ticket, ttl) if cursor.rowcount == 1 else None

    def _keep_one(self, keep: Keep, now: float) -> Standing | Exception:
        """One claim of a batch: what is wrong with it stays its own trouble."""
        run, lines = self._cursor.execute, self._lines
        sent = len(lines.pokes)
        if keep.new_id:
            self._have_session(now)
        run("SAVEPOINT one")
        try:
            answer: Standing | Exception = lines.keep(keep, now)
        except UNREADABLE as wrong:
            run("ROLLBACK TO one")
            del lines.pokes[sent:]
            answer = wrong
        run("RELEASE one")
        return answer

    def leave(self, leave: Leave, within: float) -> bool:
        """See :meth:`holdfast.core.ports.Store.leave`."""
        return self._inside(within, self._roomy, self._leave, leave)

    def _leave(self, now: float, leave: Leave) -> bool:
        name, claim_id, ticket, after, suspect, _ = leave
        if not after and not suspect:
            cursor = self._cursor
            cursor.execute(_LEAVE, (name, ticket, claim_id, now))
            if cursor.rowcount == 1:
                return True
        return self._slow(self._lines.leave, leave, now)

    def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """See :meth:`holdfast.core.ports.Store.resize`."""

        def work(now: float) -> int | Mismatch | None:
            return self._slow(self._lines.resize, name, capacity, now)

        return self._inside(within, work)

    def inspect(self, prefix: str, within: float, exact: bool) -> list[LineRecord]:
        """See :meth:`holdfast.core.ports.Store.inspect`. A snapshot: it doesn't close the gate."""

        def work(now: float) -> list[LineRecord]:
            self._gate.exit()
            return self._lines.inspect(prefix, exact, now)

        return self._inside(within, work)

    def peek(self, claim: Claim, waiting: Waiting) -> int | None:
        """For who must poll: the fence if the claim is held by now, 0 if it is worth asking."""

        def work(now: float) -> int | None:
            self._gate.exit()
            values = (claim.spec.name, waiting.ticket)
            row = self._cursor.execute(_SQL.standing, values).fetchone()
            if row is None or row[0] != claim.id:
                return 0
            if row[1]:
                return waiting.ticket
            return 0 if any(self._others.dead(s) for s in waiting.watch) else None

        try:
            return self._inside(PEEK_S, work)
        except StoreUnavailable:
            return None

    def _roomy(self, now: float, work: Callable[..., T], *args: object) -> T:
        """Do what must not fail for want of space, such as letting go.

        A full disk has no room for one more frame in the log. Once the log is copied back into
        the database, where every page already has its place, it is written anew from its
        beginning, which takes no space.
        """
        try:
            return work(now, *args)
        except sqlite3.OperationalError as wrong:
            if not full(wrong):
                raise
            self._connection.rollback()
            self._cursor.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            return work(now, *args)

    # -- the rest --------------------------------------------------------------------------

    def session_fd(self, within: float = 5.0) -> int:
        """A descriptor that keeps this client's session alive in whatever process has it."""

        def work(now: float) -> int:
            return self._have_session(now).fd

        return self._inside(within, work)

    def alarms(self, watch: Sequence[str]) -> list[int]:
        """What to poll so as to learn of the end of these sessions."""
        others = self._others
        if others is None:
            return []
        return [fd for fd in map(others.alarm, watch) if fd >= 0]

    def close(self) -> None:
        """End the session, and with it every claim that belongs to it."""
        if self.closed:
            return
        ended = False
        try:
            if self._gate is not None:
                self._inside(TIDY_S, self._give_up)
                ended = True
                self._inside(TIDY_S, self._shut)
        except (StoreUnavailable, ConfigError):
            pass  # The kernel ends the session now: others will see that, and clear up.
        finally:
            self.closed = True
            self.mail.close()
            session, self._session, self.own = self._session, None, ""
            if session is not None:
                session.end(unlink=ended)
            self._drop()

    def _give_up(self, now: float) -> None:
        """Take every claim of ours out of its line."""
        while self.own and not self._slow(self._lines.bury, self.own, now):
            pass

    def _shut(self, now: float) -> None:
        """Close the database while nobody else can be opening it."""
        self._drop()
