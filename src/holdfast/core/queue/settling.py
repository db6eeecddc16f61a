"""Settling deliveries: one request for one or many, and the use of its reply.

Several calls can settle the same delivery at the same time; the store accepts one of them. So if
the store does not find a delivery while another settle of it is under way, nothing is decided yet.
The call waits for the other settle, and the last reply decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...errors import ConfigError, LockLost, NotSupported
from ..asking import LEAST_S, Asking
from ..model import Loss, State
from ..policy import REQUEST_S
from .model import BATCH_MAX, Settle
from .ports import queues_of

if TYPE_CHECKING:
    from ..context import Context
    from .delivery import DeliveryBase

#: A delivery, and the request that settles it.
Done: TypeAlias = "tuple[DeliveryBase, Settle]"
#: A delivery, its request, and the reply.
Open: TypeAlias = "tuple[DeliveryBase, Settle, bool | LockLost]"


async def settle_all(ctx: Context, some: Sequence[Done]) -> list[bool]:
    """Settle deliveries of one client, up to 1,000 in a round trip. Return, for each delivery, True
    if its settle counted."""
    once = list({id(one): (one, settle) for one, settle in some}.values())
    for start in range(0, len(once), BATCH_MAX):
        await Settling(ctx, once[start : start + BATCH_MAX]).run()
    return [one._counted(settle) for one, settle in some]


class Settling(Asking):
    """Deliveries that one request settles, and the handling of its reply, failure or interruption.
    ``settles``: the requests for the deliveries that can still be settled."""

    def __init__(self, ctx: Context, some: Sequence[Done]) -> None:
        self.ctx = ctx
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
        return min(max(end - self.ctx.now(), LEAST_S), REQUEST_S)

    async def run(self) -> None:
        """Settle the deliveries."""
        if not self.settles:
            return
        ctx, settles = self.ctx, self.settles
        queues = queues_of(ctx.store)
        try:
            answers = await self.insist(
                lambda within: queues.settle(settles, within), ctx.now() + self.within()
            )
        except BaseException as failure:
            self.failed(failure)
            raise
        if self.learn(answers):
            await self.decided()

    def failed(self, failure: BaseException) -> None:
        """Handle a failed request: the deliveries can be settled again. After an interruption no
        caller would do that, so the renewer settles them."""
        self.ctx.settling.discard(self)
        if not isinstance(failure, Exception):
            self.interrupted()
            return
        refused = isinstance(failure, (ConfigError, NotSupported)) and not self.suspect
        for one, settle in zip(self._jobs, self.settles, strict=True):
            one._lease.settling -= 1
            one._keep_on(not refused, None if refused else settle.verdict)

    def learn(self, answers: Sequence[bool | Exception]) -> list[Open]:
        """Record the settles that counted; raise an error that came in place of a reply. Return the
        deliveries that the store did not find while another settle of them is under way: `decided`
        waits for that settle."""
        self.ctx.settling.discard(self)
        wrong = None
        for one, settle, answer in zip(self._jobs, self.settles, answers, strict=True):
            one._lease.settling -= 1
            if isinstance(answer, Exception) and not isinstance(answer, LockLost):
                wrong = answer
                one._keep_on(False)
            elif answer is not True and one._lease.settling:
                self._open.append((one, settle, answer))
            else:
                self._decide(one, settle, answer)
        if wrong is not None:
            raise wrong
        return self._open

    async def decided(self) -> None:
        """Wait for the other settles of deliveries that the store did not find; then decide."""
        ctx = self.ctx
        end = ctx.now() + self.within()
        for one, settle, answer in self._open:
            lease, latch = one._lease, ctx.runtime.latch()
            lease.latches.append(latch)
            try:
                while lease.end is None and lease.settling and (now := ctx.now()) < end:
                    await latch.wait(end - now)
            finally:
                lease.latches.remove(latch)
            self._decide(one, settle, answer)

    def _decide(self, one: DeliveryBase, settle: Settle, answer: bool | LockLost) -> None:
        """Apply this reply; no other settle of the delivery can change it."""
        lease = one._lease
        if lease.end is State.RELEASED and answer is not True:
            return  # another call settled it, so the store did not find it
        # An earlier or another request without an answer can have settled the delivery. This
        # request then finds nothing. Before our deadline, nothing else can be the cause.
        repeated = self.suspect or lease.asked or lease.settling > 0
        lease.unsure = repeated and answer is not True
        if isinstance(answer, LockLost):
            lease.reason = lease.reason or Loss(str(answer.reason))
            one._over(False)
            return
        # None: the unanswered settle counted, so its verdict stays.
        verdict = settle.verdict if answer or one._verdict is None else None
        one._over(answer or (repeated and self.ctx.now() < lease.deadline), verdict)

    def interrupted(self) -> None:
        """Let the renewer settle the deliveries, because an interruption left the outcome open."""
        self.ctx.settling.discard(self)
        for one, settle in zip(self._jobs, self.settles, strict=True):
            one._lease.settling -= 1
            if not one.settled:
                one._entrust(settle)
