"""Settling deliveries: one request for one or many, and what becomes of them by its answer.

Several may settle the same delivery at the same time, and the store lets one of them do it. So an
answer that it was not there decides nothing while another settle of it is under way: it is waited
for, and the last one decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...errors import ConfigError, LockLost, NotSupported
from ..model import Loss, State
from ..policy import REQUEST_S
from .model import BATCH_MAX, Settle
from .ports import queues_of

if TYPE_CHECKING:
    from ..context import Context
    from .delivery import DeliveryBase

#: A delivery, and what it is to be settled by.
Done: TypeAlias = "tuple[DeliveryBase, Settle]"
#: The same with the answer to it, and if it was asked for before, without an answer.
Open: TypeAlias = "tuple[DeliveryBase, Settle, bool | LockLost, bool]"


async def settle_all(ctx: Context, some: Sequence[Done]) -> list[bool]:
    """Settle deliveries of one client in one round trip for up to 1,000: which of them counted?"""
    once = list({id(one): (one, settle) for one, settle in some}.values())
    for start in range(0, len(once), BATCH_MAX):
        await Settling(ctx, once[start : start + BATCH_MAX]).run()
    return [one._counted(settle) for one, settle in some]


class Settling:
    """Deliveries that are being settled by one request, and what becomes of them by its answer, by
    none, or by an interruption. ``settles``: what is asked of the store, for those of them that
    can still be settled."""

    __slots__ = ("_ctx", "_jobs", "_open", "settles")

    def __init__(self, ctx: Context, some: Sequence[Done]) -> None:
        self._ctx = ctx
        self._jobs: list[DeliveryBase] = []
        #: Those that were not there while another settle of them was under way.
        self._open: list[Open] = []
        self.settles: list[Settle] = []
        for one, settle in some:
            if one._still_open():
                ctx.settling.add(self)
                one._lease.closing = True  # first, so that the renewer reports no false loss
                one._lease.settling += 1
                self._jobs.append(one)
                self.settles.append(settle)

    def within(self) -> float:
        """How long it may be tried, or waited for: as long as the leases last, and a moment."""
        end = min([one._lease.deadline for one in self._jobs])
        return min(max(end - self._ctx.now(), 0.05), REQUEST_S)

    async def run(self, again: bool = False) -> None:
        """Settle them. ``again``: it was asked for already, without an answer."""
        if not self.settles:
            return
        ctx = self._ctx
        queues, sent = queues_of(ctx.store), 0

        def settle(within: float) -> Awaitable[list[bool | Exception]]:
            nonlocal sent
            sent += 1
            return queues.settle(self.settles, within)

        try:
            answers, repeated = await ctx.insist(settle, ctx.now() + self.within())
        except BaseException as failure:
            self.failed(failure, again or sent > 1)
            raise
        if self.answered(answers, again or repeated):
            await self.decided()

    def failed(self, failure: BaseException, again: bool) -> None:
        """There is no answer but this failure: they can be settled again. An interruption leaves
        nobody to do that."""
        self._ctx.settling.discard(self)
        if not isinstance(failure, Exception):
            self.interrupted()
            return
        refused = isinstance(failure, (ConfigError, NotSupported)) and not again
        for one, settle in zip(self._jobs, self.settles, strict=True):
            one._lease.settling -= 1
            one._keep_on(not refused, None if refused else settle.verdict)

    def answered(self, answers: Sequence[bool | Exception], again: bool) -> list[Open]:
        """Write down what counted; raises what stands in the place of an answer. Of those that
        are returned another settle is under way: ``decided`` waits for it."""
        self._ctx.settling.discard(self)
        wrong = None
        for one, settle, answer in zip(self._jobs, self.settles, answers, strict=True):
            one._lease.settling -= 1
            if isinstance(answer, Exception) and not isinstance(answer, LockLost):
                wrong = answer
                one._keep_on(False)
            elif answer is not True and one._lease.settling:
                self._open.append((one, settle, answer, again))
            else:
                self._decide(one, settle, answer, again)
        if wrong is not None:
            raise wrong
        return self._open

    async def decided(self) -> None:
        """Wait for the other settles of jobs that were not there; the last of them decides."""
        ctx = self._ctx
        end = ctx.now() + self.within()
        for one, settle, answer, again in self._open:
            lease, latch = one._lease, ctx.runtime.latch()
            lease.latches.append(latch)
            try:
                while lease.end is None and lease.settling and (now := ctx.now()) < end:
                    await latch.wait(end - now)
            finally:
                lease.latches.remove(latch)
            self._decide(one, settle, answer, again)

    def _decide(
        self, one: DeliveryBase, settle: Settle, answer: bool | LockLost, again: bool
    ) -> None:
        """No other settle of it may still change what this answer says."""
        lease = one._lease
        if lease.end is State.RELEASED and answer is not True:
            return  # it was not there because another one did it
        if isinstance(answer, LockLost):
            lease.reason = lease.reason or Loss(str(answer.reason))
            one._over(False)
            return
        # A repetition whose first reply was lost finds nothing, and so does one beside a settle
        # that isn't answered: before our deadline that means that the other one did it.
        repeated = again or lease.asked or lease.settling > 0
        lease.unsure = repeated and not answer
        # Else it was the one that was not answered.
        verdict = settle.verdict if answer or one._verdict is None else None
        one._over(answer or (repeated and self._ctx.now() < lease.deadline), verdict)

    def interrupted(self) -> None:
        """The caller was interrupted and the outcome is unknown: let the renewer release it."""
        self._ctx.settling.discard(self)
        for one, settle in zip(self._jobs, self.settles, strict=True):
            one._lease.settling -= 1
            if not one.settled:
                one._entrust(settle)
