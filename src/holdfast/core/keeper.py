"""The renewer: one thread or task per client renews all its leases.

Renewals go out in batches, one round trip each; which lease is due when stands in ``schedule``.

What fails is tried again inside the lease, sooner and sooner apart than a third of it; an error
never ends a renewal, only the deadline does. When that passes, or the store says that the claim
is gone, the hold is lost: the reason is written down, every waiter is woken, the callbacks run.

The renewer never keeps a claim that waits. It starts when a hold needs it, and ends some seconds
after the last one. Finalizers take no lock: they mark a lease as an orphan, and the renewer looks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ..errors import HoldfastError, StoreUnavailable
from .lease import Lease
from .model import Gone, Held, Loss, State
from .policy import REQUEST_S, TOMB_S, back_off, deadline, renew_every
from .ports import Undo
from .schedule import Schedule
from .undos import Undos

if TYPE_CHECKING:
    from .context import Context

log = logging.getLogger("holdfast")

#: With nothing to do it lingers this long before it ends, so that a loop that takes and frees a
#: lock neither wakes nor starts it each time.
LINGER_S = 5.0
#: After a grant by push it sleeps no longer than this, for as long as it would linger.
BRISK_S = 0.4
#: A first request is given no longer, lest one that is lost keeps others from being renewed; each
#: repetition is given twice as long, for a store that is only slow.
FIRST_ASK_S = 1.0
#: No request is given more of what is left of the nearest lease, so that some more can follow:
#: who asks a silent store loses all that the last request took, and this is what has an end.
ASK_PART = 1 / 3
#: A store that did not answer when it was looked at is looked at again this much later.
AGAIN_S = 0.25
#: What an error of a callback is said of.
TOLD = "the on_lost callback of {!r}"


class Keeper:
    """Renews the leases of one client, and tells whoever must know when one is lost."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        #: Those that could not be carried out at once.
        self._undos = Undos()
        #: When to look at the store next, while anything is kept.
        self._look_at = math.inf
        self._latch = ctx.runtime.latch()
        self._schedule = Schedule(self._latch.set)
        self._wake_at = math.inf
        #: The turn of the one that runs, set by one atomic step. It gives True once: to the thread
        #: or task that begins, or to the interrupted caller, after whom that one does nothing.
        self._turns: dict[int, Iterator[bool]] = {}
        self._started = False
        self._stopped = self._forgotten = False
        self._idle_since = 0.0
        #: Until then it sleeps only for short.
        self._brisk_until = -math.inf
        #: It is at work: what it has taken out of the schedule may be nowhere for a moment.
        self._awake = False
        #: The batch that is being renewed.
        self._asked: list[Lease] = []

    # -- called by holds and claims, from any thread -----------------------------------------

    def add(self, lease: Lease, due: float) -> None:
        """Renew this lease from ``due`` on, every third of its ttl."""
        self._schedule.add(lease, due)
        if due < self._wake_at or not self._started:
            self._rouse_for(lease)

    def add_early(self, lease: Lease, due: float) -> None:
        """Renew this lease, or look at it, sooner than others of its kind."""
        self._schedule.add_own(lease, due)
        if due < self._wake_at or not self._started:
            self._rouse_for(lease)

    def add_pushed(self, lease: Lease, due: float) -> None:
        """The same for one that was granted by a push. More will come, each of them sooner due
        than what there is: so that none of them has to wake the renewer, at the very moment at
        which somebody waits for our caller to continue, it looks for itself, for a while."""
        self._brisk_until = due + LINGER_S
        self.add_early(lease, due)

    def pace(self, lease: Lease, sent: float) -> None:
        """The length of this lease changed by a request that was sent at that time."""
        self.drop(lease)
        if lease.renewing:
            lease.every = renew_every(lease.longest(sent))
            self.add(lease, sent + lease.every)
        elif lease.watched:
            self.add_early(lease, lease.deadline)

    def watch(self, lease: Lease) -> None:
        """Look at this lease when its deadline passes, though it isn't renewed."""
        if not lease.renewing and not lease.watched and lease.end is None:
            lease.watched = True
            self.add_early(lease, lease.deadline)

    def drop(self, lease: Lease) -> None:
        """Renew it no more."""
        self._schedule.drop(lease)

    def later(self, leave: Undo, until: float) -> None:
        """Carry out this undo as soon as the store answers again; give up at ``until``. A
        suspect one is gone on with as long as the join that it undoes may be under way."""
        until += TOMB_S if leave.suspect else 0.0
        self._undos.add(self._ctx.now(), leave, until)
        try:
            self._rouse()
        except RuntimeError as failure:
            text = "no keeper can be started (%s): a claim on %r is withdrawn with the next hold"
            log.warning(text, failure, leave.name)

    def lose(self, lease: Lease, reason: Loss) -> None:
        """The hold is lost: write it down, wake who waits for that, call who asked for it."""
        lease.reason = lease.reason or reason
        if lease.end is not None:
            return
        self.drop(lease)
        lease.end = State.LOST
        fence = self._ctx.fence_of(lease, " (fence {})")
        level = logging.ERROR if lease.grave else logging.INFO
        log.log(level, "lost %r%s: %s", lease.name, fence, lease.reason)
        for latch in list(lease.latches):
            latch.set()
        self.tell(lease)

    def tell(self, lease: Lease) -> None:
        """Call who asked to be told of the loss; each is called once, whoever comes first."""
        hold = lease.hold_ref() if lease.hold_ref is not None else None
        while hold is not None and lease.reason is not None and lease.callbacks:
            try:
                call = lease.callbacks.pop(0)
            except IndexError:
                return  # another thread took it
            try:
                self._ctx.runtime.follow(call(hold, lease.reason), TOLD.format(lease.name))
            except BaseException as stop:  # what it exits by isn't for whoever calls it here
                if self._ctx.runtime.interrupts(stop):
                    raise
                log.exception("%s raised", TOLD.format(lease.name))

    def stop(self) -> None:
        """End the thread or task soon."""
        self._stopped = True
        self._latch.set()

    def next_due(self) -> float:
        """When there is something to do next; ``inf`` if there is nothing to do."""
        if self._awake or self._asked:
            return -math.inf
        soonest = min(self._nexts(), default=math.inf)
        return soonest if soonest == math.inf else min(soonest, self._look_at)

    def pending(self) -> int:
        """How many leases are kept, and undos outstanding."""
        return len(self._schedule) + len(self._undos)

    def give_up(self, reason: Loss) -> list[Undo]:
        """The client closes: every lease is lost; the leaves that remain to be carried out."""
        leaves = list(self._undos)
        leases = self._schedule.empty() + self._asked
        leases += [hold._lease for hold in self._ctx.all_unrenewed()]
        self._undos = Undos()
        for lease in leases:
            if lease.end is None and not lease.closing:
                self.lose(lease, reason)
                leaves.append(lease.undo(reason))
        return leaves

    # -- the thread or task ------------------------------------------------------------------

    def _rouse(self) -> None:
        turn = iter((True,))
        try:
            if self._turns.setdefault(0, turn) is turn:
                self._started = True
                run, over = partial(self._run, turn), partial(self._over, turn)
                self._ctx.runtime.background(run, over, "holdfast-keeper")
            else:
                self._latch.set()
        except BaseException:  # the next hold tries again, unless it has begun all the same
            if self._turns.get(0) is turn and next(turn, False):
                self._started = False
                del self._turns[0]
            raise

    def _rouse_for(self, lease: Lease) -> None:
        """Rouse it to renew this lease; without a renewer nothing is held, as it would be lost."""
        try:
            self._rouse()
        except RuntimeError as failure:
            if "shutdown" in str(failure):  # in an exit handler: its ttl must do
                log.warning("%r isn't renewed, as the interpreter ends: %s", lease.name, failure)
                return
            lease.due = -math.inf  # an entry at its own time doesn't count any more
            self._schedule.drop(lease)
            raise HoldfastError(
                f"{lease.name!r} can't be renewed, because its keeper can't be started: {failure}. "
                f"Raise the limit of threads or tasks, or end some; then {lease.remedy}"
            ) from failure

    def forgotten(self) -> None:
        """Nobody has the client any more, though maybe its locks: sleep no longer than usual
        lingering, and linger no more. Takes no lock, as a finalizer calls it."""
        self._forgotten = True
        self._latch.set()

    async def _run(self, turn: Iterator[bool]) -> None:
        if not next(turn, False):
            return  # its start was interrupted, and counts as none
        # It lingers even if the hold that it was started for has ended by now.
        self._idle_since = self._ctx.now()
        self._look_at = self._idle_since + self._ctx.store.watch_every
        while not self._stopped and await self._round():
            pass

    def _over(self, turn: Iterator[bool]) -> None:
        """It ended, for want of work or because somebody cancelled the task: the next hold starts
        another. What came in while it ended is looked for after that, so nothing is overlooked."""
        if self._turns.get(0) is not turn:
            return
        for lease in self._asked:
            self._schedule.add_own(lease, self._ctx.now())
        self._asked, self._awake, self._started = [], False, False
        del self._turns[0]
        if not self._stopped and next(self._nexts(), None) is not None:
            try:
                self._rouse()
            except RuntimeError:
                log.exception("the keeper of %s can't go on now", self._ctx.store.label)

    async def _round(self) -> bool:
        """One round of work and sleep; False when there has been nothing to do for long."""
        ctx = self._ctx
        self._awake = True
        ctx.drain_orphans()
        if self._schedule.crowded:
            self._schedule.clear_away()
        if ctx.now() >= self._look_at and not self._schedule.in_trouble(ctx.now()):
            await self._look()  # in trouble every moment counts, and a silent store tells nothing
        batch = self._asked = []
        self._schedule.take(ctx.now(), ctx.store.keep_batch, batch)
        if batch:
            await self._renew(batch)
            self._asked = []
        await self._undos.carry_out(ctx, self._free)
        if not batch:
            nap = self._plan(ctx.now())
            if nap is None:
                self._schedule.clear_away()
                return False
            self._awake = False
            await self._latch.wait(nap)
            self._wake_at = 0.0
        return True

    async def _look(self) -> None:
        """Look whether the store has lost data; if so, renew everything at once."""
        ctx = self._ctx
        every = ctx.store.watch_every
        if next(self._nexts(), None) is None:
            self._look_at = ctx.now() + every
            return
        try:
            changed = await ctx.store.changed(min(FIRST_ASK_S, every / 2))
        except StoreUnavailable:
            self._look_at = ctx.now() + min(AGAIN_S, every / 4)
            return
        except Exception:
            log.exception("looking at %s failed; it will be tried again", ctx.store.label)
            changed = False
        now = ctx.now()
        self._look_at = now + every
        if changed:
            log.warning("%s isn't what it was; all holds are renewed", ctx.store.label)
            self._schedule.hasten(now)

    def _plan(self, now: float) -> float | None:
        """Seconds to sleep. The plan is announced before it is checked, so that of a lease that
        comes in between either its caller sees the plan or we see the lease."""
        brisk = now + BRISK_S if now < self._brisk_until else math.inf
        self._wake_at = min(self._soonest(now), brisk)
        target = min(self._wake_at, self._soonest(now))
        # It also wakes for a look if it has nothing to keep, as something may come meanwhile.
        if self._forgotten:
            target = min(target, now + LINGER_S) if target < math.inf else target
        return None if target == math.inf else max(0.0, min(target, self._look_at) - now)

    def _soonest(self, now: float) -> float:
        soonest = min(self._nexts(), default=math.inf)
        if soonest < math.inf:
            self._idle_since = now
            return soonest
        until = self._idle_since + LINGER_S
        return math.inf if self._forgotten or now >= until else until

    def _nexts(self) -> Iterator[float]:
        yield from self._schedule.soonest()
        if self._undos:
            yield self._undos.soonest()

    def _free(self) -> float:
        """How many seconds remain until the next renewal is due."""
        return min(self._schedule.soonest(), default=math.inf) - self._ctx.now()

    async def _renew(self, batch: list[Lease]) -> None:
        ctx = self._ctx
        asked: dict[str, list[Lease]] = {}
        now = ctx.now()
        for lease in batch:
            if lease.orphan or lease.closing or lease.end is not None:
                continue
            reason = lease.reason if now < lease.deadline else lease.loss(now)
            if reason is not None:
                self._let_go(lease, reason)
            elif not lease.renewing:
                self.watch(lease)
            elif lease.stop_at < math.inf and lease.capped():
                self.add_early(lease, lease.deadline)  # max_hold: nothing left to ask for
            else:
                asked.setdefault(lease.kind, []).append(lease)
        size = ctx.store.keep_batch
        for leases in asked.values():
            for start in range(0, len(leases), size):
                await self._ask(leases[start : start + size])

    async def _ask(self, leases: list[Lease]) -> None:
        ctx = self._ctx
        sent = ctx.now()
        nearest = min([lease.deadline for lease in leases]) - sent
        patience = FIRST_ASK_S * 2 ** min(4, max([lease.failures for lease in leases]))
        within = max(0.02, min(REQUEST_S, nearest * ASK_PART, patience))
        answers: Sequence[object]
        try:
            answers = await ctx.prolong(leases, within)
        except StoreUnavailable as failure:
            answers = [failure] * len(leases)
        except Exception as failure:
            log.exception("renewing at %s failed; it will be tried again", ctx.store.label)
            answers = [failure] * len(leases)
        self._learn(leases, answers, sent)

    def _learn(self, leases: list[Lease], answers: Sequence[object], sent: float) -> None:
        now = self._ctx.now()
        renewed: list[Lease] = []
        length = until = -math.inf
        for lease, answer in zip(leases, answers, strict=True):
            if lease.closing or lease.end is not None:
                continue
            if not isinstance(answer, Held):
                self._trouble(lease, answer, now)
                continue
            if answer.fence != lease.fence:  # it was over; a late copy of its join entered again
                self._let_go(lease, lease.loss(now) or Loss.EXPIRED)
                continue
            if answer.expires_in != length:
                length = answer.expires_in
                until = deadline(sent, length)
            if lease.prolonged(sent, until, now):
                renewed.append(lease)
            else:
                self._let_go(lease, lease.reason or Loss.EXPIRED)
        self._schedule.add_renewed(renewed, sent)

    def _trouble(self, lease: Lease, answer: object, now: float) -> None:
        """It was not renewed: it is gone, or is tried again."""
        if isinstance(answer, Gone):
            self._let_go(lease, lease.loss(now) or answer.reason)
            return
        lease.failures += 1
        if lease.failures == 1:
            left = lease.deadline - now
            text = "renewing %r failed (%s); %.1f s left to succeed"
            log.warning(text, lease.name, answer, left)
        pause = back_off(lease.failures, self._ctx.runtime.jitter(), lease.every / 4)
        self.add_early(lease, min(now + pause, max(lease.deadline, now)))

    def _let_go(self, lease: Lease, reason: Loss) -> None:
        """Lost: also withdraw the claim, so that nobody waits for what is left of its ttl."""
        self.lose(lease, reason)
        now, undo = self._ctx.now(), lease.undo(reason)
        self._undos.add(now, undo, now + undo.ttl)
