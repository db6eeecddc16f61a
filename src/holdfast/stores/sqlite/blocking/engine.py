"""The verbs as one client runs them, on the caller's thread.

A *lone claim* is held, and is the only claim of its name. A request for a lone claim is done in the
table of lone claims (``lone.py``). Every other request begins a transaction and goes through
``Lines``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from ....core.model import (
    Change,
    Claim,
    Held,
    Joined,
    Leave,
    LineRecord,
    Mismatch,
    Renewal,
    Standing,
    Waiting,
)
from ....errors import HoldfastError, StoreUnavailable
from .database import full
from .entry import Entry
from .files import Files
from .gate import Replaced
from .header import AHEAD, LATEST, LIMIT, NEXT, QUIET, SPAN
from .odd import UNREADABLE, unreadable
from .session import NONE, Alarm
from .sql import verbs

A = TypeVar("A")
T = TypeVar("T")
#: Maximum seconds that `Engine.peek` waits for the file mutex.
PEEK_S = 0.05
_SQL = verbs()
_RENEW = _SQL.renew


class Engine(Entry):
    """One client's access to one database, which its first verb opens."""

    def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """See :meth:`holdfast.core.ports.Store.join`."""
        answer = self._inside(within, self._join, claim, wait)
        if self._promised is not None:
            self._reserve()
        return answer

    def _join(self, files: Files, now: float, claim: Claim, wait: bool) -> Joined:
        if now >= files.look_at:
            self._look(files, now)
        words, floats = files.words, files.floats
        answer: Joined
        if now < floats[QUIET] or self._lines.tomb(claim.id, now):
            answer = self._slow(files, self._lines.join, claim, wait, now)
        else:
            ticket, ttl = words[NEXT], claim.spec.ttl
            if not 0 < words[LIMIT] - ticket <= SPAN:
                files.reserve()
            if now + ttl > floats[LATEST]:
                floats[LATEST] = now + ttl
            words[NEXT] = ticket + 1
            if files.lone.enter(claim, ticket, files.own_bytes, now):
                answer = Held(ticket, ttl)
            else:
                words[NEXT] = ticket  # It wasn't used, and no other client is inside.
                answer = self._slow(files, self._lines.join, claim, wait, now)
        if words[NEXT] + AHEAD > words[LIMIT]:
            self._low(files)
        # This check is last, because a claim in files that were replaced isn't valid.
        if files.gate.moved():
            raise Replaced
        return answer

    def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """See :meth:`holdfast.core.ports.Store.join_free`.

        It makes lone claims only. The answer is None if the slot of a name is taken, or if a name
        of that slot has a line in the database.
        """
        held = self._inside(within, self._join_free, claims)
        if self._promised is not None:
            self._reserve()
        return held

    def _join_free(self, files: Files, now: float, claims: Sequence[Claim]) -> list[Held] | None:
        if now >= files.look_at:
            self._look(files, now)
        words, floats, lone = files.words, files.floats, files.lone
        held = None
        barred = now < floats[QUIET] or any(self._lines.tomb(one.id, now) for one in claims)
        if not barred and lone.free_for(claims):
            if not len(claims) <= words[LIMIT] - words[NEXT] <= SPAN:
                files.reserve()
            held = []
            for claim in claims:
                files.note_expiry(now + claim.spec.ttl)
                ticket = words[NEXT]
                words[NEXT] = ticket + 1
                lone.enter(claim, ticket, files.own_bytes, now)
                held.append(Held(ticket, claim.spec.ttl))
        if words[NEXT] + AHEAD > words[LIMIT]:
            self._low(files)
        if files.gate.moved():  # Last, as in `_join`.
            raise Replaced
        return held

    def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """See :meth:`holdfast.core.ports.Store.renew`."""
        return self._inside(within, self._roomy, self._renew, renewals)

    def _renew(
        self, files: Files, now: float, renewals: Sequence[Renewal]
    ) -> list[Standing | Exception]:
        answers = [self._renew_lone(files, renewal, now) for renewal in renewals]
        if None in answers:
            answers = self._slow(files, self._renew_rest, files, renewals, answers, now)
        if files.gate.moved():
            raise Replaced
        return [answer for answer in answers if answer is not None]

    def _renew_lone(
        self, files: Files, renewal: Renewal, now: float
    ) -> Standing | Exception | None:
        """Renew a lone claim; None if not lone, or if its weight is to change."""
        claim, ticket, ttl, weight = renewal
        if weight:
            return None
        if now + ttl > files.floats[LATEST]:
            files.floats[LATEST] = now + ttl
        try:
            if files.lone.renew(claim.spec.name, claim.id, ticket, now, ttl):
                return Held(ticket, ttl)
        except UNREADABLE as wrong:
            return unreadable(wrong, self.label)
        return None

    def _renew_rest(
        self,
        files: Files,
        renewals: Sequence[Renewal],
        answers: list[Standing | Exception | None],
        now: float,
    ) -> list[Standing | Exception | None]:
        return [
            answer or self._renew_lined(files, renewal, now)
            for renewal, answer in zip(renewals, answers, strict=True)
        ]

    def _renew_lined(self, files: Files, renewal: Renewal, now: float) -> Standing | Exception:
        """Renew one claim of a batch in the database; its error doesn't affect the others."""
        claim, ticket, ttl, weight = renewal
        held = None if weight else self._renew_held(files, claim, ticket, ttl, now)
        if held is not None:
            return held
        return self._by_itself(files, self._lines.renew, renewal, now)

    def _renew_held(
        self, files: Files, claim: Claim, ticket: int, ttl: float, now: float
    ) -> Held | None:
        """Renew a held claim of this client by one statement; None if that isn't possible."""
        cursor = files.cursor
        try:
            cursor.execute(_RENEW, (claim.spec.name, ticket, claim.id, now, ttl, files.own))
        except UNREADABLE:
            return None
        return Held(ticket, ttl) if cursor.rowcount == 1 else None

    def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """See :meth:`holdfast.core.ports.Store.turn`, and ``Lines.turn``."""
        standing: Standing = self._inside(within, self._roomy, self._turn, claim, ticket)
        return standing

    def _turn(self, files: Files, now: float, claim: Claim, ticket: int) -> Standing:
        files.note_expiry(now + claim.spec.ttl)
        return self._settled(files, self._turn_lined, files, claim, ticket, now)

    def _turn_lined(self, files: Files, claim: Claim, ticket: int, now: float) -> Standing:
        held = self._renew_held(files, claim, ticket, claim.spec.ttl, now)
        return held or self._lines.turn(claim, ticket, now)

    def change(self, change: Change, within: float) -> Standing:
        """See :meth:`holdfast.core.ports.Store.change`."""
        standing: Standing = self._inside(within, self._roomy, self._change, change)
        return standing

    def _change(self, files: Files, now: float, change: Change) -> Standing:
        if change.new_id:
            self._have_session(files, now)
        return self._settled(files, self._lines.change, change, now)

    def _settled(self, files: Files, verb: Callable[..., T], *asked: object) -> T:
        """Do one request in a transaction; raise if others have replaced the files."""
        answer = self._slow(files, verb, *asked)
        if files.gate.moved():
            raise Replaced
        return answer

    def _by_itself(
        self, files: Files, work: Callable[[A, float], T], asked: A, now: float
    ) -> T | Exception:
        """Do one of several requests in a transaction; return its answer, or its error."""
        run, lines = files.cursor.execute, self._lines
        sent = len(lines.pokes)
        run("SAVEPOINT one")
        try:
            answer: T | Exception = work(asked, now)
        except UNREADABLE as wrong:
            run("ROLLBACK TO one")
            del lines.pokes[sent:]
            answer = unreadable(wrong, self.label)
        run("RELEASE one")
        return answer

    def leave(self, leave: Leave, within: float) -> bool:
        """See :meth:`holdfast.core.ports.Store.leave`."""
        left: bool = self._inside(within, self._roomy, self._leave, leave)
        return left

    def _leave(self, files: Files, now: float, leave: Leave) -> bool:
        name, claim_id, ticket, after, suspect, _ = leave
        if not after and not suspect and files.lone.leave(name, claim_id, ticket, now):
            return True
        return self._end(files, now, self._lines.leave, leave)

    def break_(self, name: str, ticket: int, within: float) -> bool:
        """See :meth:`holdfast.core.ports.Store.break_`."""
        there: bool = self._inside(within, self._roomy, self._break, name, ticket)
        return there

    def _break(self, files: Files, now: float, name: str, ticket: int) -> bool:
        return self._end(files, now, self._lines.break_, name, ticket)

    def _end(self, files: Files, now: float, verb: Callable[..., bool], *asked: object) -> bool:
        there: bool = self._slow(files, verb, *asked, now)
        if not there and files.gate.moved():  # the claim may be in the files that replaced these
            raise Replaced
        return there

    def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """See :meth:`holdfast.core.ports.Store.leave_all`."""
        left: set[Leave] = set()
        return self._inside(within, self._leave_all, leaves, left)

    def _leave_all(
        self, files: Files, now: float, leaves: Sequence[Leave], left: set[Leave]
    ) -> list[bool | Exception]:
        """``left``: the requests that succeeded in the old files, before others replaced the
        files."""
        answers = [one in left or self._let_go(files, one, now) for one in leaves]
        if None in answers:
            answers = self._roomy(files, now, self._leave_rest, leaves, answers)
        if False in answers and files.gate.moved():  # as in `_end`
            left.update(one for one, gone in zip(leaves, answers, strict=True) if gone is True)
            raise Replaced
        return [answer for answer in answers if answer is not None]

    def _let_go(self, files: Files, leave: Leave, now: float) -> bool | Exception | None:
        """Release a lone claim; None if not lone, or if the request needs the database."""
        name, claim_id, ticket, after, suspect, _ = leave
        try:
            if not after and not suspect and files.lone.leave(name, claim_id, ticket, now):
                return True
        except UNREADABLE as wrong:
            return unreadable(wrong, self.label)
        return None

    def _leave_rest(
        self,
        files: Files,
        now: float,
        leaves: Sequence[Leave],
        answers: list[bool | Exception | None],
    ) -> list[bool | Exception | None]:
        """Do the unanswered requests in one transaction; an error of one affects no other."""

        def work() -> list[bool | Exception | None]:
            return [
                self._by_itself(files, self._lines.leave, leave, now) if answer is None else answer
                for leave, answer in zip(leaves, answers, strict=True)
            ]

        return self._slow(files, work)

    def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """See :meth:`holdfast.core.ports.Store.resize`."""

        def work(files: Files, now: float) -> int | Mismatch | None:
            return self._settled(files, self._lines.resize, name, capacity, now)

        return self._inside(within, work)

    def inspect(self, prefix: str, exact: bool, within: float) -> list[LineRecord]:
        """See :meth:`holdfast.core.ports.Store.inspect`. The call reads a snapshot: the file mutex
        is held only while the snapshot begins."""

        def work(files: Files, now: float) -> list[LineRecord]:
            files.cursor.execute("BEGIN").execute(_SQL.standing, ("", 0)).fetchall()
            alone = list(files.lone.claims())
            files.gate.exit()
            return self._lines.inspect(prefix, exact, alone, now)

        return self._inside(within, work)

    def peek(self, claim: Claim, waiting: Waiting, within: float) -> int | None:
        """Check the claim of a waiter that polls. Return the fence if the claim is held, 0 if a
        `turn` can change its standing, None if nothing has changed."""

        def work(files: Files, now: float) -> int | None:
            files.gate.exit()
            values = (claim.spec.name, waiting.ticket)
            row = files.cursor.execute(_SQL.standing, values).fetchone()
            if row is None or row[0] != claim.id:
                return 0
            if row[1]:
                return waiting.ticket
            return 0 if any(files.others.dead(s) for s in waiting.watch) else None

        try:
            return self._inside(min(within, PEEK_S), work)
        except StoreUnavailable:
            return None

    def _roomy(self, files: Files, now: float, work: Callable[..., T], *args: object) -> T:
        """Do work that must not fail on a full disk, such as a release.

        A full disk has no room for one more frame in the log. So the log is copied back into the
        database, where every page already has its place. After that, the log is written from its
        beginning again, which takes no space.
        """
        try:
            return work(files, now, *args)
        except sqlite3.OperationalError as wrong:
            if not full(wrong):
                raise
            files.connection.rollback()
            files.cursor.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            return work(files, now, *args)

    # -- the rest --------------------------------------------------------------------------

    def session_fd(self, within: float) -> int:
        """A descriptor that keeps this client's session alive while any process has the descriptor
        open."""

        def work(files: Files, now: float) -> int:
            return self._have_session(files, now).fd

        return self._inside(within, work)

    def alarm(self, session: str) -> Alarm:
        """A descriptor that hangs up when a session ends; see ``session.Others.alarm``."""
        files = self._files
        return NONE if files is None else files.others.alarm(session)

    def close(self, within: float) -> None:
        """End the session, and with it every claim that belongs to it."""
        if self.closed:
            return
        ended = False
        try:
            if self._files is not None:
                self._inside(within, self._give_up)
                ended = self.closed = True
                self._inside(within, self._shut)
        except HoldfastError:
            pass  # The kernel ends the session now: other clients see that, and clear up.
        finally:
            self.closed = True
            self.mail.close()
            if self._files is not None:
                self._files.look_at = 0.0  # So a late join finds that this client is closed.
            session, self._session = self._session, None
            if session is not None:
                session.end(unlink=ended)

    def _give_up(self, files: Files, now: float) -> None:
        """Remove every claim of this client from its line."""
        while files.own and not self._slow(files, self._lines.bury, files.own, now):
            pass

    def _shut(self, files: Files, now: float) -> None:
        """Close the database while no other client can be opening it."""
        self._drop()
