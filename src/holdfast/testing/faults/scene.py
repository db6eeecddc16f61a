"""The scenario of a round of damage: its acts, one after the other, on either face."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from ...errors import ComputeFailed, HoldfastError, LockLost, NotAcquired, RefreshTimeout
from ...runtime.blocking import boottime
from ..faces import Actor, Face

#: The length of the leases of holds, deliveries and refreshes, in seconds.
TTL_S = 1.5
#: Seconds for which a failed computation is remembered.
FAILURE_S = 1.0


class Wasted(LookupError):
    """The error of a failed computation in the scenario."""


class Scene:
    """A holder, a waiter, a queue and the values of a guard; their names contain ``token``.

    ``wrong`` collects descriptions of everything that went wrong.
    """

    def __init__(self, face: Face, url: str, token: str, overlap_s: float) -> None:
        self.face = face
        self.token = token
        self.wrong: list[str] = []
        self._overlap_s = overlap_s
        self.clients = [face.client(url) for _ in range(3)]
        self.holder, self.other, self.third = self.clients
        self.first: Any = None
        self.second: Any = None
        self.job: Any = None
        self._waiter: Actor | None = None
        self._beside: list[Actor] = []
        self._computed = face.flag()

    def start(self, name: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Actor:
        """Run ``work`` at the same time as the acts; ``work`` may raise only `HoldfastError`."""

        async def judged() -> None:
            try:
                await work()
            except HoldfastError:
                pass
            except Exception as raw:
                self.wrong.append(f"{name}: raw exception {raw!r}")

        actor = self.face.start(judged)
        self._beside.append(actor)
        return actor

    async def over(self) -> None:
        """Wait until everything that ``start`` began has ended."""
        self._computed.set()
        for one in self._beside:
            try:
                await one.result(10.0)
            except TimeoutError as stuck:
                self.wrong.append(f"at the same time as the acts: stuck, {stuck}")

    # -- locks -----------------------------------------------------------------------------------

    async def hold(self) -> None:
        """Acquire the lock with the first client."""
        self.first = await self.holder.lock(f"{self.token}-lock", ttl=TTL_S).acquire(timeout=5)

    async def wait(self) -> None:
        """Start to acquire the lock with a second client, which waits for the first one."""

        async def wait() -> None:
            lock = self.other.lock(f"{self.token}-lock", ttl=TTL_S)
            self.second = await lock.acquire(timeout=4)

        waiter = self._waiter = self.start("the waiter", wait)
        end = boottime() + 1
        while boottime() < end and not waiter.finished:
            lines = await self.third.inspect(f"{self.token}-lock", exact=True)
            if lines and lines[0].waiters:
                break
            await self.face.sleep(0.005)

    async def try_it(self) -> None:
        """Try to acquire with a third client; it must fail while the first client holds."""
        hold = await self.third.lock(f"{self.token}-lock", ttl=TTL_S).acquire(blocking=False)
        if hold is None:
            return
        try:
            if self.first is not None:
                await self._never_two(self.first, hold)
        finally:
            with suppress(LockLost):
                await hold.release()

    async def renew(self) -> None:
        """Wait until the renewers have renewed the holds, the delivery and the refresh lease."""
        await self.face.sleep(TTL_S / 3 + 0.1)

    async def pass_on(self) -> None:
        """Release the lock of the first client, so that the waiter is granted."""
        if self.first is not None:
            if self.second is not None:
                await self._never_two(self.first, self.second)
            first, self.first = self.first, None
            with suppress(LockLost):
                await first.release()

    async def end(self) -> None:
        """Wait for the end of the second client's acquire, and release its hold."""
        if self._waiter is not None:
            with suppress(TimeoutError):
                await self._waiter.result(6.0)
        if self.second is not None:
            second, self.second = self.second, None
            with suppress(LockLost):
                await second.release()

    async def _never_two(self, one: Any, two: Any) -> None:
        """Check that at least one of two granted claims is lost in the allowed time."""
        end = boottime() + self._overlap_s
        while boottime() < end:
            if not (_believes(one) and _believes(two)):
                return
            await self.face.sleep(0.01)
        if _believes(one) and _believes(two):
            self.wrong.append(f"two holders for more than {self._overlap_s:g} s")

    # -- queues ----------------------------------------------------------------------------------

    async def put(self) -> None:
        """Put grouped and ungrouped jobs."""
        queue = self.holder.queue(f"{self.token}-queue")
        for number in range(3):
            await queue.put({"number": number}, group="a", id=f"job-{number}")
        await queue.put(b"plain")

    async def take(self) -> None:
        """Take a job."""
        self.job = await self.other.queue(f"{self.token}-queue", ttl=TTL_S).take(timeout=0)

    async def settle(self) -> None:
        """Ack the job, take the next job, and return that job for a retry."""
        if self.job is not None:
            with suppress(LockLost):
                await self.job.ack()
        self.job = await self.other.queue(f"{self.token}-queue", ttl=TTL_S).take(timeout=0)
        if self.job is not None:
            await self.job.retry(0.0, "again")

    # -- refresh guards --------------------------------------------------------------------------

    def _guard(self, client: Any) -> Any:
        return client.guard(
            f"{self.token}-guard", ttl=30, lease=TTL_S, timeout=4, failure_ttl=FAILURE_S
        )

    async def _get(self, client: Any, key: str, compute: Callable[[], Awaitable[str]]) -> None:
        """Check that the guard returns the computed value for this key, or raises a clear error."""
        value = await self._guard(client).get(compute, key=key)
        if value != f"value of {key}":
            self.wrong.append(f"the guard: another value {value!r:.60} for {key!r}")

    async def refresh(self) -> None:
        """Compute or read a value."""

        async def compute() -> str:
            return "value of "

        await self._get(self.holder, "", compute)

    async def fail(self) -> None:
        """Run a computation that fails; the guard remembers the failure."""

        async def compute() -> str:
            raise Wasted("no such thing")

        with suppress(Wasted):
            await self._get(self.holder, "bad", compute)

    async def compute(self) -> None:
        """Start to compute a value with one client, and wait for the value with another one."""
        begun = self.face.flag()

        async def compute() -> str:
            begun.set()
            await self._computed.wait(20.0)
            return "value of slow"

        async def quick() -> str:
            return "value of slow"

        slow = self.start("the computation", lambda: self._get(self.holder, "slow", compute))
        with suppress(TimeoutError):
            await begun.wait(2.0)
        if not slow.finished:
            self.start("the waiting call", lambda: self._get(self.other, "slow", quick))

    async def store(self) -> None:
        """Let the computation that ``compute`` started end; its value is stored."""
        self._computed.set()

    async def invalidate(self) -> None:
        """Invalidate the first value, and compute it again."""
        await self._guard(self.other).invalidate()
        await self.refresh()

    async def look(self) -> None:
        """Read all views of the state: locks, queue and guard."""
        await self.third.inspect(self.token)
        await self.third.queue(f"{self.token}-queue").stats()
        await self.third.queue(f"{self.token}-queue").jobs()
        for key in ("", "slow", "bad"):
            await self._guard(self.third).inspect(key)
        await self._guard(self.third).stats()

    # -- is everything usable again? -------------------------------------------------------------

    async def use_lock(self) -> None:
        """Check that the lock can be acquired."""
        hold = await self.third.lock(f"{self.token}-lock", ttl=TTL_S).acquire(timeout=1)
        if hold is None:
            raise NotAcquired("no client holds it, and it can't be acquired")
        with suppress(LockLost):
            await hold.release()

    async def use_queue(self) -> None:
        """Check that a new job is delivered."""
        queue = self.third.queue(f"{self.token}-queue", ttl=TTL_S)
        await queue.put(b"last")
        end = boottime() + 2
        while boottime() < end:
            job = await queue.take(timeout=0.2)
            if job is None:
                continue
            with suppress(LockLost):
                await job.ack()
            if job.payload == b"last":
                return
        raise NotAcquired("a job that was accepted is not delivered")

    async def use_guard(self) -> None:
        """Check that each value can be invalidated, computed and found again."""
        await self.invalidate()
        for key in ("", "slow", "bad"):
            await self._keeps(key)

    async def _keeps(self, key: str) -> None:
        computed: list[str] = []

        async def compute() -> str:
            computed.append(key)
            return f"value of {key}"

        try:
            for _ in range(2):
                await self._get(self.third, key, compute)
        except (ComputeFailed, RefreshTimeout) as barred:
            raise NotAcquired(f"{key!r} can't be computed: {barred}") from barred
        if len(computed) == 2:
            raise NotAcquired(f"what was computed for {key!r} isn't kept")


def _believes(hold: Any) -> bool:
    try:
        hold.check()
    except LockLost:
        return False
    return True


#: The acts, in order.
ACTS: tuple[Callable[[Scene], Awaitable[None]], ...] = (
    Scene.hold,
    Scene.wait,
    Scene.try_it,
    Scene.put,
    Scene.take,
    Scene.refresh,
    Scene.compute,
    Scene.fail,
    Scene.look,
    Scene.renew,
    Scene.settle,
    Scene.store,
    Scene.pass_on,
    Scene.end,
    Scene.invalidate,
)
