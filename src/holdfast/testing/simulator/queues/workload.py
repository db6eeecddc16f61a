"""Actions of the actors: put jobs; take and settle them one by one, in a loop or as a worker."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....core.client import ClientBase
from ....core.queue.delivery import DeliveryBase
from ....core.queue.model import Pace, Patience, Settle, Start, Verdict
from ....core.queue.queue import Options, QueueBase, Retry
from ....core.queue.worker import WorkerBase
from ....errors import ConfigError, LockLost, NotHeld, StoreUnavailable
from ..world import Cancelled, Process
from .watch import Loan, QueueWatch

if TYPE_CHECKING:
    from .history import QueueHistory

GROUPS = ("g", "h", "")
EXPECTED = (StoreUnavailable, LockLost, NotHeld, ConfigError)


def options_of(rng: random.Random) -> dict[str, Options]:
    """Draw the options of the history's queues; all actors use the same options."""
    interval = rng.choice((0.0, 0.0, 0.4, 2.0))
    start = rng.choice((Start.ACK, Start.ACK, Start.TAKE))
    patience = Patience(rng.choice((2, 4, 10)), rng.random() < 0.2)
    retry = Retry(rng.choice((0.05, 1.0)), 3.0)
    ttl = rng.choice((0.6, 2.0, 2.0, 6.0))
    rate = rng.choice((float("inf"), float("inf"), 20.0))
    return {"q": Options(Pace(interval, start, rate), patience, retry, ttl, 60.0)}


class QueueActor:
    """A task of a process that puts or takes; it draws its actions from a separate seed."""

    def __init__(self, history: QueueHistory, process: Process, number: int, seed: int) -> None:
        self.history = history
        self.process = process
        self.number = number
        self.rng = random.Random(seed)
        self.watch: QueueWatch = history.watch
        self.client: ClientBase = history.clients[process.pid]
        self.queue = QueueBase(self.client._ctx, "q", history.options["q"])
        self.holding: list[Loan] = []
        self.calls = 0

    async def main(self) -> None:
        """Execute a number of actions, one after the other; settle or release all deliveries."""
        choices: Sequence[Callable[[], Awaitable[None]]] = (
            [self.put] * 4 + [self.one] * 4 + [self.loop] * 2 + [self.several, self.work, self.work]
        )
        await self._attempt(self.put)
        for _ in range(self.history.plan.actions):
            await self._attempt(self.rng.choice(choices))

    async def drain(self) -> None:
        """Take and ack all remaining jobs."""
        while True:
            try:
                found = await self.queue._take(1, 0.0)
                if found:
                    await self._settle(self._got(found[0], self.history.world.time), Verdict.ACK)
                    continue
            except LockLost:
                continue
            if not self._left():
                return
            await self.client._ctx.runtime.sleep(0.5)

    def _left(self) -> bool:
        """Return True if a job of the queue can still become due."""
        queue = self.history.server.queue("q")
        some = [*queue.tracks.values(), *queue.singles.values()]
        return any(track.rows and not track.rows[0].dead for track in some)

    async def _attempt(self, act: Callable[[], Awaitable[None]]) -> None:
        self.history.tell(self, act.__name__)
        try:
            await act()
        except EXPECTED as failure:
            self.history.tell(self, f"  {type(failure).__name__}")
        except Cancelled:
            self.history.tell(self, "  cancelled")
        except KeyboardInterrupt:
            self.history.tell(self, "  Ctrl-C")
        for loan in self.holding:
            self.watch.left(loan)  # an exception ended the action, and with it the work
        await self._in_the_end(self._return_all)
        await self._in_the_end(lambda: self.pause(0.4))

    async def _in_the_end(self, act: Callable[[], Awaitable[None]]) -> None:
        """Repeat ``act`` until no interrupt ends it."""
        while True:
            try:
                return await act()
            except (Cancelled, KeyboardInterrupt):
                continue

    async def _return_all(self) -> None:
        while self.holding:
            job = self.holding[-1].job
            try:
                if job._lease.end is None:
                    await job._settle(job._return_request())
            except StoreUnavailable:
                await self.pause(0.5)
                continue
            except EXPECTED:
                pass
            self.holding.pop()

    # -- the actions -------------------------------------------------------------------------

    async def put(self) -> None:
        """Put some jobs, sometimes with ids, or with a delay."""
        rng, group = self.rng, self.rng.choice(GROUPS)
        jobs = []
        for _ in range(rng.choice((1, 1, 3))):
            self.calls += 1
            known = f"{self.number}.{self.calls}" if rng.random() < 0.5 else None
            delay = rng.choice((0.0, 0.0, 0.0, 0.5))
            jobs.append(self.queue._job([self.number, self.calls], group or None, known, delay))
        begun = self.history.world.time
        for receipt in await self.queue._put(jobs):
            if not receipt.duplicate:
                self.watch.put("q", group, receipt.id, begun)

    async def one(self) -> None:
        """Take a job, work on it and settle it."""
        for job in await self._take(1):
            await self._work_on(job)

    async def several(self) -> None:
        """Take some jobs in one round trip, and ack them in another one."""
        found = await self._take(3)
        await self.pause(0.3)
        for loan in found:
            self.watch.worked(loan)
        kept = await self.queue._ack([loan.job for loan in found])
        for loan, counted in zip(found, kept, strict=True):
            self.watch.settled(loan, Verdict.ACK, counted)
            self.holding.remove(loan)

    async def loop(self) -> None:
        """Take jobs in a loop; each take also acks the previous job."""
        last: Loan | None = None
        for _ in range(self.rng.randint(2, 4)):
            done: Any = None
            if last is not None:
                self.watch.worked(last)
                done = last.job, last.job._ack_request()
            found = await self._take(1, done)
            if last is not None:
                self._told(last)
            last = found[0] if found else None
            await self.pause(0.3)
            if last is not None:
                self.watch.looked(last)
        if last is not None:
            await self._settle(last, Verdict.ACK)

    def _told(self, last: Loan) -> None:
        self.watch.settled(last, Verdict.ACK, last.job._kept)
        if last in self.holding:
            self.holding.remove(last)

    async def work(self) -> None:
        """Run a worker with two loops for a while."""
        worker = WorkerBase(self.queue, self._handle, 2, drain=self.rng.random() < 0.3)
        worker._start()
        try:
            await self.pause(3.0)
        finally:
            worker.stop()
        try:
            while not await worker._join(1.0):
                pass
        except RuntimeError:  # one of the worker's loops was cancelled
            self.history.tell(self, "  its worker was ended from outside")

    async def _handle(self, job: DeliveryBase) -> BaseException | None:
        """Handle a job of the worker; return the exception of a failed job, or None."""
        loan = self.watch.delivered(self.process, job, self.history.world.time)
        self.history.tell(self, f"  works on {loan}")
        try:
            await self.pause(0.4)
            self.watch.looked(loan)
            if self.rng.random() < 0.2:
                return ValueError("the handler fails")
            return None
        finally:
            self.watch.left(loan)

    # -- the parts ---------------------------------------------------------------------------

    async def _take(self, most: int, done: Any = None) -> list[Loan]:
        world, queues = self.history.world, self.client._ctx.store.queues  # type: ignore[attr-defined]
        task = world.current
        begun, stopped = world.time, self.process.stopped_for
        timeout = 0.0 if done is not None else self.rng.choice((0.0, 0.5, 3.0))
        queues.takes.pop(task, None)
        try:
            found = await self.queue._take(most, timeout, done=done)
        except BaseException:
            if task in queues.takes:
                self.watch.interrupted(self.process, queues.takes[task])
            raise
        if done is None:
            self.watch.in_time(self.process, begun, timeout, stopped)
        return [self._got(job, begun) for job in found]

    def _got(self, job: DeliveryBase, begun: float) -> Loan:
        loan = self.watch.delivered(self.process, job, begun)
        self.history.tell(self, f"  has {loan}")
        self.holding.append(loan)
        return loan

    async def _work_on(self, loan: Loan) -> None:
        """Work on the job for a while, check the delivery a few times, and settle it."""
        ttl = loan.lease.ttl
        length = self.rng.choice((0.01, 0.3, ttl * 0.5, ttl * 2)) * self.rng.random()
        for _ in range(self.rng.randint(1, 3)):
            await self.pause(length / 2)
            self.watch.looked(loan)
        verdicts = [Verdict.ACK] * 4 + [Verdict.RETRY, Verdict.RETURN, Verdict.DEAD]
        await self._settle(loan, self.rng.choice(verdicts))

    async def _settle(self, loan: Loan, verdict: Verdict) -> None:
        job = loan.job
        self.watch.worked(loan)
        self.history.tell(self, f"  settles {loan}: {verdict}")
        ask = self._request(job, verdict)
        kept = await job._settle(ask)
        self.watch.settled(loan, ask.verdict, kept)
        if loan in self.holding:
            self.holding.remove(loan)

    def _request(self, job: DeliveryBase, verdict: Verdict) -> Settle:
        if verdict is Verdict.ACK:
            return job._ack_request()
        if verdict is Verdict.RETRY:
            return job._retry_request(self.rng.choice((None, 0.2)), "failed")
        if verdict is Verdict.DEAD:
            return job._dead_request("given up")
        return job._return_request()

    async def pause(self, seconds: float) -> None:
        """Sleep for up to twice this time."""
        await self.client._ctx.runtime.sleep(self.rng.random() * 2 * seconds)
