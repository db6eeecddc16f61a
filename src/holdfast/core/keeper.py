"""The renewer: one thread or task per client renews all its leases.

Renewals go out in batches, one round trip each; ``schedule`` defines when a lease is due.

A failed renewal is repeated until the deadline of the lease, with shorter pauses. If the deadline
passes, or if the store reports that the claim is gone, the hold is lost. Then the reason is
recorded, waits are woken, and callbacks run.

The renewer never renews a waiting claim. It starts when a hold needs it, and ends some seconds
after the last one. Finalizers take no lock: they only mark the lease of a forgotten hold.
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

#: The renewer ends after this idle time, in seconds. So a loop that acquires and releases a lock
#: doesn't start the renewer each time.
LINGER_S = 5.0
#: Maximum sleep in seconds for a while after a grant by push; see `Keeper.add_pushed`.
BRISK_S = 0.4
#: The time-out of the first request for a lease, in seconds. It is short, because other leases wait
#: while a request is lost. Each repetition gets twice the time: the store may only be slow.
FIRST_ASK_S = 1.0
#: A request may take at most this part of the time until the nearest deadline. So the request can
#: be repeated before that deadline, if the store is silent.
ASK_PART = 1 / 3
#: Maximum seconds until an unanswered check for lost data is repeated.
AGAIN_S = 0.25
#: The subject of a log line about an error of a callback.
TOLD = "the on_lost callback of {!r}"


class Keeper:
    """Renews the leases of one client, and reports a loss to its waits and callbacks."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        #: The undos that could not be carried out immediately.
        self._undos = Undos()
        #: The time of the next check of the store for lost data, while there is any lease.
        self._look_at = math.inf
        self._latch = ctx.runtime.latch()
        self._schedule = Schedule(self._latch.set)
        self._wake_at = math.inf
        #: Key 0 has the turn of the running thread or task; one atomic step sets it. A turn yields
        #: True once. Usually the new thread or task takes this True, and runs. If the start was
        #: interrupted, the starter takes it, and the thread or task ends.
        self._turns: dict[int, Iterator[bool]] = {}
        self._started = False
        self._stopped = self._forgotten = False
        self._idle_since = 0.0
        #: Until this time the renewer sleeps at most `BRISK_S` at a time.
        self._brisk_until = -math.inf
        #: True while the renewer works: then possibly no list contains the lease that it handles.
        self._awake = False
        #: The batch that is being renewed.
        self._asked: list[Lease] = []

    # -- called by holds and claims, from any thread -----------------------------------------

    def add(self, lease: Lease, due: float) -> None:
        """Renew this lease at ``due``, and then again after each third of its ttl."""
        self._schedule.add(lease, due)
        if due < self._wake_at or not self._started:
            self._rouse_for(lease)

    def add_early(self, lease: Lease, due: float) -> None:
        """Renew or check this lease at ``due``, independently of its length."""
        self._schedule.add_own(lease, due)
        if due < self._wake_at or not self._started:
            self._rouse_for(lease)

    def add_pushed(self, lease: Lease, due: float) -> None:
        """Like `add_early`, for a hold that was granted by a push. Usually more such holds follow,
        each due before the renewer's next planned wake-up. So the renewer wakes more often for a
        while; then the callers that get these holds don't need to wake the renewer."""
        self._brisk_until = due + LINGER_S
        self.add_early(lease, due)

    def pace(self, lease: Lease, sent: float) -> None:
        """Schedule a lease again: a request sent at ``sent`` changes the lease's length."""
        self.drop(lease)
        if lease.renewing:
            lease.every = renew_every(lease.longest(sent))
            self.add(lease, sent + lease.every)
        elif lease.watched:
            self.add_early(lease, lease.deadline)

    def watch(self, lease: Lease) -> None:
        """Check this lease when its deadline passes, if it isn't renewed."""
        if not lease.renewing and not lease.watched and lease.end is None:
            lease.watched = True
            self.add_early(lease, lease.deadline)

    def drop(self, lease: Lease) -> None:
        """Remove this lease from the schedule."""
        self._schedule.drop(lease)

    def later(self, leave: Undo, until: float) -> None:
        """Carry out this undo as soon as the store answers; give up at ``until``. For a suspect
        undo, give up `TOMB_S` later: until then a copy of the request that it undoes can arrive."""
        until += TOMB_S if leave.suspect else 0.0
        self._undos.add(self._ctx.now(), leave, until)
        try:
            self._rouse()
        except RuntimeError as failure:
            text = "the renewer can't be started (%s); the next hold starts it, to withdraw %r"
            log.warning(text, failure, leave.name)

    def lose(self, lease: Lease, reason: Loss) -> None:
        """Record that the hold is lost, wake the waits for its loss, and run its callbacks."""
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
        """Run each callback for the loss once, in the first thread that takes it."""
        hold = lease.hold_ref() if lease.hold_ref is not None else None
        while hold is not None and lease.reason is not None and lease.callbacks:
            try:
                call = lease.callbacks.pop(0)
            except IndexError:
                return  # another thread took it
            try:
                self._ctx.runtime.follow(call(hold, lease.reason), TOLD.format(lease.name))
            except BaseException as stop:  # a SystemExit must not end the caller's thread or task
                if self._ctx.runtime.interrupts(stop):
                    raise
                log.exception("%s raised", TOLD.format(lease.name))

    def stop(self) -> None:
        """End the thread or task soon."""
        self._stopped = True
        self._latch.set()

    def next_due(self) -> float:
        """Return the time of the next work: ``inf`` if there is none, ``-inf`` during work."""
        if self._awake or self._asked:
            return -math.inf
        soonest = min(self._nexts(), default=math.inf)
        return soonest if soonest == math.inf else min(soonest, self._look_at)

    def pending(self) -> int:
        """Return the number of leases and outstanding undos."""
        return len(self._schedule) + len(self._undos)

    def give_up(self, reason: Loss) -> list[Undo]:
        """Lose every lease, because the client closes. Return the undos that remain to be carried
        out."""
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
        except BaseException:  # the next hold tries again, unless the thread or task has begun
            if self._turns.get(0) is turn and next(turn, False):
                self._started = False
                del self._turns[0]
            raise

    def _rouse_for(self, lease: Lease) -> None:
        """Start or wake the renewer for this lease. Raise if that fails: otherwise the hold would
        be lost without notice."""
        try:
            self._rouse()
        except RuntimeError as failure:
            if "shutdown" in str(failure):  # in an exit handler: the hold lasts for its ttl
                log.warning("%r isn't renewed, as the interpreter ends: %s", lease.name, failure)
                return
            lease.due = -math.inf  # makes its entry in the heap invalid
            self._schedule.drop(lease)
            raise HoldfastError(
                f"{lease.name!r} can't be renewed, because its renewer can't be started: "
                f"{failure}. Raise the limit of threads or tasks, or end some; then {lease.remedy}"
            ) from failure

    def forgotten(self) -> None:
        """Note that the client object was collected; holds can still exist. The renewer then sleeps
        at most `LINGER_S`, and ends when it has no work. Takes no lock: a finalizer calls this."""
        self._forgotten = True
        self._latch.set()

    async def _run(self, turn: Iterator[bool]) -> None:
        if not next(turn, False):
            return  # its start was interrupted, and doesn't count
        # Linger even if the hold for which the renewer was started has already ended.
        self._idle_since = self._ctx.now()
        self._look_at = self._idle_since + self._ctx.store.watch_every
        while not self._stopped and await self._round():
            pass

    def _over(self, turn: Iterator[bool]) -> None:
        """Handle the end of the thread or task: it had no work, or was cancelled. The next hold
        starts another thread or task; one starts now if work was added meanwhile."""
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
                log.exception("the renewer of %s can't be started now", self._ctx.store.label)

    async def _round(self) -> bool:
        """Do one round of work and sleep; return False after `LINGER_S` seconds without work."""
        ctx = self._ctx
        self._awake = True
        ctx.drain_orphans()
        if self._schedule.crowded:
            self._schedule.clear_away()
        if ctx.now() >= self._look_at and not self._schedule.in_trouble(ctx.now()):
            await self._look()  # not if a retry is due soon: a check of a silent store takes time
        batch = self._asked = []
        self._schedule.take(ctx.now(), ctx.store.batch_max, batch)
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
        """Check if the store has lost data; if so, renew everything immediately."""
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
            log.exception("%s: the check for lost data failed; it is repeated", ctx.store.label)
            changed = False
        now = ctx.now()
        self._look_at = now + every
        if changed:
            log.warning("%s may have lost data; renewing all holds", ctx.store.label)
            self._schedule.hasten(now)

    def _plan(self, now: float) -> float | None:
        """Return the seconds to sleep; None: end. `_wake_at` is set, then the schedule is read once
        more. So a thread that adds a lease sees `_wake_at`, or this method sees the lease."""
        brisk = now + BRISK_S if now < self._brisk_until else math.inf
        self._wake_at = min(self._soonest(now), brisk)
        target = min(self._wake_at, self._soonest(now))
        # Wake for the check of the store even without a lease: one can be added before it.
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
        """Return the seconds until the next renewal is due."""
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
                self.add_early(lease, lease.deadline)  # max_hold allows no further renewal
            else:
                asked.setdefault(lease.kind, []).append(lease)
        size = ctx.store.batch_max
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
            log.exception("%s: renewing failed; it is repeated", ctx.store.label)
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
            if answer.fence != lease.fence:  # expired; then a late copy of its join was granted
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
        """Handle a failed renewal: the lease is lost, or the renewal is repeated."""
        if isinstance(answer, Gone):
            self._let_go(lease, lease.loss(now) or answer.reason)
            return
        lease.failures += 1
        if lease.failures == 1:
            left = lease.deadline - now
            text = "renewing %r failed (%s); %.1f s left for a retry"
            log.warning(text, lease.name, answer, left)
        pause = back_off(lease.failures, self._ctx.runtime.jitter(), lease.every / 4)
        self.add_early(lease, min(now + pause, max(lease.deadline, now)))

    def _let_go(self, lease: Lease, reason: Loss) -> None:
        """Record that the hold is lost, and withdraw its claim. Otherwise the next waiter would
        wait until the claim expires."""
        self.lose(lease, reason)
        now, undo = self._ctx.now(), lease.undo(reason)
        self._undos.add(now, undo, now + undo.ttl)
