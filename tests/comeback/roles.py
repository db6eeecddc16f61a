"""The activities of a client while its server is lost; on both faces, each in a separate thread."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress

from holdfast import LockLost, NotAcquired, StoreUnavailable
from holdfast.aio import AsyncClient
from holdfast.testing.faces import Face, now
from tests.comeback.worlds import TTL_S

#: Seconds between two actions of a role.
PACE_S = 0.25
#: Errors that must not end a role: every program has to expect them.
EXPECTED = (StoreUnavailable, LockLost, NotAcquired)


class Player:
    """A thread that plays a role until its end; ``worked`` is the time of its last success."""

    def __init__(self, face: Face, role: Role, url: str, name: str) -> None:
        self.what = f"{role.__name__}, {face.name}"
        self.face, self.url, self.name = face, url, name
        self.worked = 0.0
        self.failure: BaseException | None = None
        #: The idle role waits for this event.
        self.woken = threading.Event()
        self.told = threading.Event()
        self._thread = threading.Thread(target=self._play, args=(role,), name=self.what)
        self._thread.start()

    def _play(self, role: Role) -> None:
        async def play() -> None:
            client = self.face.client(self.url, ttl=TTL_S)
            try:
                await role(self, client)
            finally:
                await client.close()

        try:
            self.face.run(play, 600.0)
        except BaseException as failure:
            self.failure = failure

    def works(self) -> None:
        """Record a success of the role."""
        self.worked = now()

    async def going_on(self) -> bool:
        """Pause; return False when the role has to end."""
        await self.face.sleep(PACE_S)
        return not self.told.is_set()

    @property
    def plays(self) -> bool:
        """True while the role has not ended."""
        return self._thread.is_alive()

    def end(self) -> None:
        """End the role, and wait for its thread."""
        self.woken.set()
        self.told.set()
        self._thread.join(60)


Role = Callable[[Player, AsyncClient], Awaitable[None]]


async def idle(me: Player, client: AsyncClient) -> None:
    """Lock once before the outage, and again only after `woken` is set."""
    while await me.going_on():
        if not me.worked or me.woken.is_set():
            with suppress(*EXPECTED):
                async with client.lock(f"{me.name}:{me.what}", timeout=5):
                    me.works()


async def holder(me: Player, client: AsyncClient) -> None:
    """Hold a lock, and acquire it again when it is lost."""
    lock = client.lock(f"{me.name}:{me.what}")
    while await me.going_on():
        with suppress(*EXPECTED):
            async with lock as hold:
                while hold.lost is None and await me.going_on():
                    await hold.extend()
                    me.works()


async def waiter(me: Player, client: AsyncClient) -> None:
    """Wait for a lock that the waiter of the other face holds, and release it soon."""
    lock = client.lock(f"{me.name}:waited for")
    while not me.told.is_set():
        with suppress(*EXPECTED):
            async with lock:
                me.works()
                await me.going_on()


async def worker(me: Player, client: AsyncClient) -> None:
    """Work on jobs that another client puts; the worker must not end by itself."""
    queue = client.queue(f"{me.name}:{me.what}")
    other = me.face.client(me.url, ttl=TTL_S)
    puts = other.queue(queue.name)

    async def work(job: object) -> None:
        me.works()

    working = queue.worker(work).start()
    try:
        while await me.going_on():
            with suppress(*EXPECTED):
                await puts.put("job")
            assert not await working.join(0), "the worker ended"
    finally:
        working.stop()
        with suppress(*EXPECTED):
            await working.join(20)
            await other.close()


async def guard(me: Player, client: AsyncClient) -> None:
    """Ask a guard for a value that has expired each time."""

    async def compute() -> float:
        return now()

    value = client.guard(f"{me.name}:{me.what}", ttl=0.1, lease=TTL_S)
    while await me.going_on():
        with suppress(*EXPECTED):
            me.worked = max(me.worked, await value.get(compute))


async def election(me: Player, client: AsyncClient) -> None:
    """Lead, and then let the candidate of the other face lead."""
    candidate = client.election(f"{me.name}:led")
    while not me.told.is_set():
        with suppress(*EXPECTED):
            hold = await candidate.campaign()
            me.works()
            await me.going_on()
            await hold.release()


ROLES: tuple[Role, ...] = (idle, holder, waiter, worker, guard, election)
