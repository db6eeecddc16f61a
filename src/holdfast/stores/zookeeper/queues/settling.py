"""Settles, releases, renews and expires deliveries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from ....core.model import Gone, Held, Loss
from ....core.policy import ASK_AGAIN_S_MAX
from ....core.queue.model import Extend, Settle, Take, Verdict
from ....errors import LockLost, StoreUnavailable
from ..requests import Check, Children, Create, Multi, No, Put, Request
from .idle import Idle
from .loans import Loan, Loans
from .lost import Lost
from .names import read_entry
from .taking import Taking
from .talk import Talk, check_rights, why_not
from .ways import Part, Ways

#: Maximum number of attempts at a transaction, if other clients change the nodes meanwhile.
_ROUNDS = 6
#: Seconds until the next attempt to delete a mark, after an attempt failed.
AGAIN_S = 0.25


class Ending(NamedTuple):
    """A delivery to settle, with the parts of its transaction.

    ``soon``: after the transaction a job is due soon, so a waiter must be woken."""

    loan: Loan
    parts: list[Part]
    soon: bool


class Settling:
    """Settles a batch in one round trip, each delivery in a separate transaction."""

    def __init__(self, talk: Talk, loans: Loans, ways: Ways, lost: Lost, idle: Idle) -> None:
        self._talk = talk
        self._loans = loans
        self._ways = ways
        self._lost = lost
        self._idle = idle

    async def settle(self, settles: Sequence[Settle], until: float) -> list[bool | Exception]:
        """Settle a batch of deliveries; see the contract."""
        found: list[bool | Exception] = [False] * len(settles)
        now = self._talk.port.now()
        todo: dict[int, Loan] = {}
        for at, settle in enumerate(settles):
            loan = self._loans.find(settle)
            if loan is None or loan.dead or loan.expires <= now:
                continue
            if settle.suspect:
                self._loans.bury(loan.take, now)
            todo[at] = loan
        for _ in range(_ROUNDS):
            if not todo:
                return found
            await self._round(settles, todo, found, until)
        wrong = StoreUnavailable(f"{self._talk.label} refused to settle {_ROUNDS} times")
        return [wrong if at in todo else one for at, one in enumerate(found)]

    async def _round(
        self,
        settles: Sequence[Settle],
        todo: dict[int, Loan],
        found: list[bool | Exception],
        until: float,
    ) -> None:
        """Try to settle the deliveries in ``todo``; remove each one that needs no other try."""
        endings = {at: self.prepare(loan, settles[at]) for at, loan in todo.items()}
        heirs: dict[str, int] = {}
        for ending in endings.values():
            if ending.soon:
                name = ending.loan.space.name
                heirs[name] = heirs.get(name, 0) + 1
        asked: list[Request] = [Multi(tuple(one.parts)) for one in endings.values()]
        looks = [self._talk.space(name) for name in heirs]
        asked += [self._idle.look(space) for space in looks]
        answers = await self._talk.ask(asked, until)
        for space, idle in zip(looks, answers[len(endings) :], strict=True):
            self._idle.poke(space, idle, heirs[space.name])
        for (at, ending), answer in zip(endings.items(), answers, strict=False):
            if await self.digest(ending, answer, until):
                found[at] = self._counted(ending.loan, answer)
                del todo[at]

    def prepare(self, loan: Loan, settle: Settle) -> Ending:
        """Return the transaction that settles this delivery."""
        now = self._talk.port.now()
        parts = self._ways.settling(loan, settle, now)
        return Ending(loan, parts, self._soon(parts, now))

    async def digest(self, ending: Ending, answer: Any, until: float) -> bool:
        """Return True if the answer shows that this delivery has ended, else False: try again.

        Before False is returned, the cause of the refusal is corrected: mostly old data about the
        group.
        """
        over = await self._answered(ending.loan, ending.parts, answer, until)
        if over:
            self._loans.end(ending.loan)
        return over

    def _counted(self, loan: Loan, answer: Any) -> bool | Exception:
        """Return True if this request settled the delivery, which has ended.

        Otherwise return False: an earlier request, whose answer was lost, may have settled the
        delivery. But if the mark may have ended with its session, return an error."""
        if not why_not(answer):
            return True
        if self._why(loan) is Loss.SESSION:
            text = f"the session with the delivery of {loan.space.name!r} has ended"
            return LockLost(text, Loss.SESSION)
        return False

    async def _answered(self, loan: Loan, parts: list[Part], answer: Any, until: float) -> bool:
        wrong, space, entry = why_not(answer), loan.space, loan.entry
        check_rights(wrong, f"settle a delivery of {space.name!r}", self._talk.label)
        if not wrong:
            made = answer[-1]
            if isinstance(made, str) and _heir(parts):
                space.own(made.rpartition("/")[2])
            return True
        if wrong[0] in (No.NODE, No.VERSION) or wrong[1] is No.NODE:  # no longer our delivery
            return True
        lost = next((one for one, no in zip(parts, wrong, strict=False) if no is No.NODE), None)
        if isinstance(lost, Put) and lost.path == space.place.known(loan.note.id):
            loan.note = loan.note._replace(window=-1)
        elif isinstance(lost, Put | Create):  # a folder of the queue was removed by hand
            await self._talk.make(space.place, until)
        elif lost is not None and lost.path == loan.job:  # the job was removed by hand
            await self._lost.drop(space, entry, until)
            return True
        elif entry.group:
            group = space.place.at("groups", entry.group)
            (nodes,) = await self._talk.ask([Children(group)], until)
            space.learn(entry, nodes)
        return False

    def _soon(self, parts: list[Part], now: float) -> bool:
        """Return True if these parts make an entry that is due now or soon."""
        entry = read_entry(f"{_heir(parts)}0000000000")
        if entry is None or entry.blocked:
            return False
        return entry.at - self._talk.clock.least(now) < ASK_AGAIN_S_MAX * 1000

    async def give_back(self, take: Take, taking: Taking, until: float) -> int:
        """Release the deliveries of this take; see the contract."""
        taker = self._loans.bury(take, self._talk.port.now())
        space, waiting = self._talk.space(take.queue), None
        if take.wait:
            # Remove the take's node first, so that the take gets no further wake-up. During this
            # round trip, a thread that hasn't seen the tombstone yet can send its current request.
            asked = [*self._idle.leave(take), self._idle.look(space)]
            waiting = (await self._talk.ask(asked, until))[-1]
        if taker.doubts:
            await taking.resolve(taker, until)
        what = [
            Settle(take.queue, one.note.group, one.seq, take.id, Verdict.RETURN, ttl=take.ttl)
            for one in taker.loans.values()
        ]
        answers = await self.settle(what, until)
        if not what:  # a wake-up for a due job may have gone to this take
            self._idle.poke(space, waiting, 1)
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, LockLost):
                raise answer
        return sum(answer is True for answer in answers)

    # -- leases ------------------------------------------------------------------------------

    async def extend(
        self, extends: Sequence[Extend], until: float
    ) -> list[Held | Gone | Exception]:
        """Renew these deliveries, by one write for each queue; see the contract."""
        now = self._talk.port.now()
        found: list[Held | Gone | Exception] = [Gone(Loss.EXPIRED)] * len(extends)
        of: dict[str, dict[int, Loan]] = {}
        for at, extend in enumerate(extends):
            loan = self._loans.find(extend)
            if loan is not None and not loan.dead and loan.expires > now:
                of.setdefault(extend.queue, {})[at] = loan
        for queue, some in of.items():
            before = {at: loan.expires for at, loan in some.items()}
            for loan in some.values():
                loan.expires = math.inf  # it doesn't expire during the renewal
            try:
                lost = await self._prolong(queue, some, until)
            except BaseException:
                for at, loan in some.items():
                    loan.expires = before[at]
                    self._talk.port.alarm(loan.expires)
                raise
            for at, loan in some.items():
                if at in lost:
                    found[at] = Gone(self._why(loan))
                    self._let_go(loan, before[at])
                    continue
                found[at] = Held(loan.fence, extends[at].ttl)
                loan.expires = max(before[at], self._talk.port.now() + extends[at].ttl)
                self._talk.port.alarm(loan.expires)
        return found

    async def _prolong(self, queue: str, some: dict[int, Loan], until: float) -> set[int]:
        """Renew by one transaction that writes and checks each mark; return the lost deliveries."""
        pulse = Put(self._talk.space(queue).place.at("pulse"), b"")
        lost: set[int] = set()
        for _ in range(_ROUNDS):
            rest = {at: loan for at, loan in some.items() if at not in lost}
            parts: list[Part] = [pulse]
            for loan in rest.values():
                check, _ = loan.ours()
                parts += [check, Check(loan.mark)]
            (answer,) = await self._talk.ask([Multi(tuple(parts))], until)
            wrong = why_not(answer)
            if not wrong:
                return lost
            check_rights(wrong, f"renew a delivery of {queue!r}", self._talk.label)
            # Two parts per delivery follow the write. If one of the two is refused, the delivery
            # is lost.
            lost |= {
                [*rest][(at - 1) // 2]
                for at, no in enumerate(wrong)
                if at and isinstance(no, No) and no is not No.OTHER
            }
        raise StoreUnavailable(f"{self._talk.label} refused {_ROUNDS} renewals")

    def _let_go(self, loan: Loan, expires: float) -> None:
        """End a lost delivery; if its session ended, keep it so that a settle can report this."""
        if self._why(loan) is Loss.SESSION:
            loan.expires = expires
            loan.space.busy.pop(loan.entry.node, None)
            self._talk.port.alarm(expires)
        else:
            self._loans.end(loan)

    def _why(self, loan: Loan) -> Loss:
        same = loan.session == self._talk.port.session()
        return Loss.EXPIRED if same else Loss.SESSION

    def on_alarm(self) -> None:
        """Delete the marks of expired deliveries; failed deletions are repeated later."""
        port, doomed = self._talk.port, self._loans.doomed
        now, session = port.now(), port.session()
        for loan in self._loans.alive():
            if loan.expires <= now and not loan.dead:
                loan.dead = True
                doomed[loan.mark] = loan
        for loan in list(doomed.values()):
            if session and loan.session != session:
                self._gone(loan, [])
            elif session:
                port.post(Multi(tuple(loan.ours())), partial(self._gone, loan))
        due = self._loans.next_due()
        if doomed:
            due = min(due, now + AGAIN_S)
        if due < math.inf:
            port.alarm(due)

    def _gone(self, loan: Loan, answer: Any) -> None:
        if isinstance(answer, list):  # the mark is deleted, or no longer ours
            self._loans.doomed.pop(loan.mark, None)
            self._loans.end(loan)
            loan.space.dirty()


def _heir(parts: Sequence[Part]) -> str:
    """Return the name (without number) of the entry that these parts create; empty if none."""
    last = parts[-1]
    if isinstance(last, Create) and not last.path.endswith("/dead/-"):
        return last.path.rpartition("/")[2]
    return ""
