"""Settles a job and takes the next one, in one transaction if both are ordinary.

The transaction is all or nothing: the next job is taken only if the last one is settled. So a job
in a loop costs one round trip. The settle and the take are two requests, one after the other, in
these cases: after a refusal, after another client was faster, if the list is old, if there is a
rate, and if only the group of the settled job is due. In this last case the number of the next
entry is known only after the transaction that creates the entry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....core.queue.model import Settle, Take, Taken
from ..requests import Multi, No, Request
from .idle import Idle
from .loans import Loan, Loans, Taker
from .names import Entry
from .notes import State
from .settling import Ending, Settling
from .space import Space
from .taking import Taking
from .talk import Talk, why_not


class Onward:
    """Settles and takes: a job in a loop costs one round trip."""

    def __init__(
        self, talk: Talk, loans: Loans, settling: Settling, taking: Taking, idle: Idle
    ) -> None:
        self._talk = talk
        self._loans = loans
        self._settling = settling
        self._taking = taking
        self._idle = idle

    async def settle_and_take(
        self, settles: Sequence[Settle], take: Take, until: float
    ) -> tuple[list[bool | Exception], Taken]:
        """Settle, then take a due job; see the contract."""
        loan = self._usual(settles, take)
        answers: list[bool | Exception]
        if loan is not None and await self._both(loan, settles[0], take, until):
            answers = [True]
        else:
            answers = await self._settling.settle(settles, until)
        # `take` returns the job that was taken above. If that job wasn't due, `take` tries other
        # jobs.
        return answers, await self._taking.take(take, until)

    def _usual(self, settles: Sequence[Settle], take: Take) -> Loan | None:
        """Return the delivery to settle if one transaction seems possible, else None."""
        port = self._talk.port
        if len(settles) != 1 or settles[0].suspect:
            return None
        if take.most != 1 or take.wait or take.pace.rate < math.inf:
            return None
        loan, now = self._loans.find(settles[0]), port.now()
        if loan is None or loan.dead or loan.expires <= now or loan.session != port.session():
            return None
        # If other clients were faster a moment ago, the transaction would probably be refused, and
        # with it the settle.
        space = loan.space
        if take.queue != space.name or space.refusals or not space.fresh_enough(now):
            return None
        taker = self._loans.taker(take)
        return None if taker.served or taker.buried or taker.doubts else loan

    async def _both(self, loan: Loan, settle: Settle, take: Take, until: float) -> bool:
        """Try to settle the delivery and take the first listed entry together; True if done."""
        space, taker = loan.space, self._loans.taker(take)
        try:
            for entry in await self._taking.chosen(space, taker, until):
                if entry.first:
                    ending = self._settling.prepare(loan, settle)
                    return await self._try(space, taker, entry, ending, until)
                space.put_back(entry)
        finally:
            taker.release(space.busy)
        return False

    async def _try(
        self, space: Space, taker: Taker, entry: Entry, ending: Ending, until: float
    ) -> bool:
        talk, taking, begun = self._talk, self._taking, self._talk.port.now()
        state, cut, lanes = State(entry.attempts), len(ending.parts), space.stale(begun)
        parts = taking.parts(space, taker.take, entry, state)
        reads = taking.reads(space, entry)
        lists = taking.lists(space, lanes) if lanes else []
        looks = [self._idle.look(space)] if ending.soon else []
        # Recorded before the request: if there is no answer, we may have the mark.
        taker.doubts[entry.node] = entry
        asked: list[Request] = [Multi((*ending.parts, *parts)), *reads, *lists, *looks]
        done, *read = await talk.ask(asked, until)
        if wrong := why_not(done):
            taker.doubts.pop(entry.node, None)
            if {No.NODE, No.ROOM} & {*wrong[cut:]}:
                space.refused()
            else:
                space.put_back(entry)
            return False
        for idle in read[len(reads) + len(lists) :]:
            self._idle.poke(space, idle, 1)
        await self._settling.digest(ending, done[:cut], until)
        if lists:  # after the settle, because the lists contain the entry that it created
            taking.listed(space, lanes, read[len(reads) : len(reads) + len(lists)], begun)
        mine = [done[cut:], *read[: len(reads)]]
        await taking.digest(space, taker, entry, state, mine, until)
        return True
