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


class Player(threading.Thread):
    """A thread that plays a role until its end; ``worked`` is the time of its last success."""

    def __init__(self, face: Face, role: Role, url: str, name: str) -> None:
        self.what = f"{role.__name__}, {face.name}"
        super().__init__(name=self.what)
        self._face, self._role, self._url = face, role, url
        #: A name for this role and face, and the start of a name for both faces.
        self.own, self.shared = f"{name}:{self.what}", f"{name}:{role.__name__}"
        self.worked = 0.0
        self.failure: BaseException | None = None
        #: The idle role waits for ``woken``; ``told`` ends a role.
        self.woken, self.told = threading.Event(), threading.Event()
        self.start()

    def client(self) -> AsyncClient:
        """Make a client."""
        return self._face.client(self._url, ttl=TTL_S)

    def run(self) -> None:
        """Play the role."""

        async def play() -> None:
            async with self.client() as client:
                await self._role(self, client)

        try:
            self._face.run(play, 600.0)
        except BaseException as failure:
            self.failure = failure

    def works(self) -> None:
        """Record a success of the role."""
        self.worked = now()

    async def going_on(self) -> bool:
        """Pause; return False when the role has to end."""
        await self._face.sleep(PACE_S)
        return not self.told.is_set()


Role = Callable[[Player, AsyncClient], Awaitable[None]]


async def idle(me: Player, client: AsyncClient) -> None:
    """Lock once before the outage, and again only after ``woken`` is set."""
    while await me.going_on():
        if not me.worked or me.woken.is_set():
            with suppress(*EXPECTED):
                async with client.lock(me.own, timeout=5):
                    me.works()


async def holder(me: Player, client: AsyncClient) -> None:
    """Hold a lock, and acquire it again when it is lost."""
    while await me.going_on():
        with suppress(*EXPECTED):
            async with client.lock(me.own) as hold:
                while hold.lost is None and await me.going_on():
                    await hold.extend()
                    me.works()


async def waiter(me: Player, client: AsyncClient) -> None:
    """Wait for a lock that the waiter of the other face holds, and release it soon."""
    while not me.told.is_set():
        with suppress(*EXPECTED):
            async with client.lock(me.shared):
                me.works()
                await me.going_on()


async def worker(me: Player, client: AsyncClient) -> None:
    """Work on jobs that another client puts; the worker must not end by itself."""

    async def work(job: object) -> None:
        me.works()

    async with me.client() as other:
        working = client.queue(me.own).worker(work).start()
        try:
            while await me.going_on():
                with suppress(*EXPECTED):
                    await other.queue(me.own).put("job")
                assert not await working.join(0), "the worker ended"
        finally:
            working.stop()
            with suppress(*EXPECTED):
                await working.join(20)


async def guard(me: Player, client: AsyncClient) -> None:
    """Ask a guard for a value that has expired each time."""

    async def compute() -> float:
        return now()

    value = client.guard(me.own, ttl=0.1, lease=TTL_S)
    while await me.going_on():
        with suppress(*EXPECTED):
            me.worked = max(me.worked, await value.get(compute))


async def election(me: Player, client: AsyncClient) -> None:
    """Lead, and then let the candidate of the other face lead."""
    while not me.told.is_set():
        with suppress(*EXPECTED):
            hold = await client.election(me.shared).campaign()
            me.works()
            await me.going_on()
            await hold.release()


ROLES: tuple[Role, ...] = (idle, holder, waiter, worker, guard, election)
