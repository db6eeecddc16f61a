"""Settling deliveries: one request for one or many, and the use of its reply.

Several calls can settle the same delivery at the same time; the store accepts one of them. So if
the store does not find a delivery while another settle of it is under way, nothing is decided yet.
The call waits for the other settle, and the last reply decides.
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

#: A delivery, and the request that settles it.
Done: TypeAlias = "tuple[DeliveryBase, Settle]"
#: A delivery, its request, the reply, and True if the request was sent before and not answered.
Open: TypeAlias = "tuple[DeliveryBase, Settle, bool | LockLost, bool]"


async def settle_all(ctx: Context, some: Sequence[Done]) -> list[bool]:
    """Settle deliveries of one client, up to 1,000 in a round trip. Return, for each delivery, True
    if its settle counted."""
    once = list({id(one): (one, settle) for one, settle in some}.values())
    for start in range(0, len(once), BATCH_MAX):
        await Settling(ctx, once[start : start + BATCH_MAX]).run()
    return [one._counted(settle) for one, settle in some]


class Settling:
    """Deliveries that one request settles, and the handling of its reply, failure or interruption.
    ``settles``: the requests for the deliveries that can still be settled."""

    __slots__ = ("_ctx", "_jobs", "_open", "settles")

    def __init__(self, ctx: Context, some: Sequence[Done]) -> None:
        self._ctx = ctx
        self._jobs: list[DeliveryBase] = []
        #: Deliveries that the store did not find, while another settle of them was under way.
        self._open: list[Open] = []
        self.settles: list[Settle] = []
        for one, settle in some:
            if one._still_open():
                ctx.settling.add(self)
                one._lease.closing = True  # before the send: the renewer must report no false loss
                one._lease.settling += 1
                self._jobs.append(one)
                self.settles.append(settle)

    def within(self) -> float:
        """Return the time-out of the request or the wait: the seconds until the first lease ends,
        but at least 0.05 and at most `REQUEST_S`."""
        end = min([one._lease.deadline for one in self._jobs])
        return min(max(end - self._ctx.now(), 0.05), REQUEST_S)

    async def run(self, again: bool = False) -> None:
        """Settle the deliveries. ``again``: the request was sent before, and not answered."""
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
        """Handle a failed request: the deliveries can be settled again. After an interruption no
        caller would do that, so the renewer settles them."""
        self._ctx.settling.discard(self)
        if not isinstance(failure, Exception):
            self.interrupted()
            return
        refused = isinstance(failure, (ConfigError, NotSupported)) and not again
        for one, settle in zip(self._jobs, self.settles, strict=True):
            one._lease.settling -= 1
            one._keep_on(not refused, None if refused else settle.verdict)

    def answered(self, answers: Sequence[bool | Exception], again: bool) -> list[Open]:
        """Record the settles that counted; raise an error that came in place of a reply. Return the
        deliveries that the store did not find while another settle of them is under way: `decided`
        waits for that settle."""
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
        """Wait for the other settles of deliveries that the store did not find; then decide."""
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
        """Apply this reply; no other settle of the delivery can change it."""
        lease = one._lease
        if lease.end is State.RELEASED and answer is not True:
            return  # another call settled it, so the store did not find it
        # An earlier or another request without an answer can have settled the delivery. This
        # request then finds nothing. Before our deadline, nothing else can be the cause.
        repeated = again or lease.asked or lease.settling > 0
        lease.unsure = repeated and answer is not True
        if isinstance(answer, LockLost):
            lease.reason = lease.reason or Loss(str(answer.reason))
            one._over(False)
            return
        # None: the unanswered settle counted, so its verdict stays.
        verdict = settle.verdict if answer or one._verdict is None else None
        one._over(answer or (repeated and self._ctx.now() < lease.deadline), verdict)

    def interrupted(self) -> None:
        """Let the renewer settle the deliveries, because an interruption left the outcome open."""
        self._ctx.settling.discard(self)
        for one, settle in zip(self._jobs, self.settles, strict=True):
            one._lease.settling -= 1
            if not one.settled:
                one._entrust(settle)
