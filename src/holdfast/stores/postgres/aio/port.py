"""The port for one event loop: a pool of connections, and one more that listens for all waiters."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from asyncio.events import _get_running_loop
from collections import deque
from collections.abc import Awaitable, Coroutine
from typing import Any

import psycopg

from ....core.model import Granted
from ....core.policy import NAP_S_MAX, back_off
from ....errors import HoldfastError, StoreUnavailable
from ....runtime.aio import another_loop, require_readers
from ....runtime.blocking import boottime
from ....runtime.ending.aio import Endings
from ....runtime.ending.blocking import Ending
from ....runtime.timers.aio import ended, later, sleep, time_limit
from ..blocking import wire as said
from ..blocking.port import CONNECT_S, MUTE_S, SHARED, log
from ..blocking.wire import poked
from ..calls import Call
from ..complaints import ServerSaid
from ..config import Settings
from ..replies import Rows
from .wire import EarWire, Wire, dial, drive

#: Maximum seconds for which `LoopPort.close` waits for open requests.
CLOSE_S = 2.0
#: Objects of the parent in a forked child. These objects are never used, but stay referenced: their
#: garbage collection would end the parent's sessions.
_of_the_parent: list[object] = []


class Box:
    """State of a waiter: the fence of its last wake-up, and its sleep."""

    __slots__ = ("fence", "sleep", "ticket")

    def __init__(self) -> None:
        self.fence = self.ticket = 0
        self.sleep: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """End the sleep of the waiter, if it sleeps."""
        if self.sleep is not None and not self.sleep.done():
            self.sleep.set_result(None)


class LoopPort:
    """See :class:`holdfast.stores.postgres.store.Port`."""

    def __init__(self, settings: Settings) -> None:
        self.label = settings.label
        self.deaf = False
        self._settings = settings
        self._start()

    def _start(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: list[Wire] = []
        self._wires: set[Wire] = set()
        #: Connections that this client has ended, but whose server has not yet ended the session.
        self._ending = Endings(self._replace)
        #: Callers that wait for a connection. Renewals and releases are urgent: they come first,
        #: and one connection beyond the pool is reserved for them.
        self._wanted: deque[asyncio.Future[Wire]] = deque()
        self._urgent: deque[asyncio.Future[Wire]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._connecting = 0
        #: Number of connections in use by calls that are not urgent.
        self._plain = 0
        self._closed = False
        #: Set when a connection has ended.
        self._ended = asyncio.Event()
        #: The channel. Every new connection listens to this channel, because the rows of waiters
        #: contain it.
        self._address = f"holdfast_{secrets.token_hex(9)}"
        self._ear: EarWire | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._mute_until = 0.0
        self._boxes: dict[str, Box] = {}
        #: True if the pooler keeps no sessions although pooler=session is set.
        self._shared = False
        #: Number of sleeps of each claim that waits without wake-ups.
        self._naps: dict[str, int] = {}

    # -- asking ------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the time; see the protocol."""
        return boottime()

    def ask(self, call: Call, within: float) -> Awaitable[Rows]:
        """Return the rows of the reply; see the protocol. With an idle connection, the call is sent
        before this returns, and no coroutine is made: the next waiter waits for a release."""
        if self._loop is not _get_running_loop():
            self._own()
        urgent = call.verb.urgent
        if self._idle and (urgent or self._plain < self._settings.pool):
            wire = self._idle.pop()
            if not urgent:
                wire.plain = True
                self._plain += 1
            return wire.ask(call, within)
        return self._ask_later(call, urgent, within)

    async def _ask_later(self, call: Call, urgent: bool, within: float) -> Rows:
        """Wait for a connection, and ask there in the rest of the time."""
        end = boottime() + within
        wire = await self._reach(within, urgent)
        return await wire.ask(call, max(0.0, end - boottime()))

    def _lend(self, wire: Wire, urgent: bool) -> Wire:
        wire.plain = not urgent
        self._plain += wire.plain
        return wire

    def _back(self, wire: Wire) -> None:
        self._plain -= wire.plain
        wire.plain = False

    async def _reach(self, within: float, urgent: bool) -> Wire:
        """Return a connection for one call: a new one, or one that another call returns."""
        if self._closed:
            raise StoreUnavailable(f"this client of {self.label} is closed")
        loop = asyncio.get_running_loop()
        given: asyncio.Future[Wire] = loop.create_future()
        (self._urgent if urgent else self._wanted).append(given)
        self._grow(urgent)
        timer = later(loop, within, self._give_up, given, within)
        try:
            return await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled() and given.exception() is None:
                self._free(given.result())
            raise
        finally:
            timer.cancel()

    def _give_up(self, given: asyncio.Future[Wire], within: float) -> None:
        if not given.done():
            busy = self._plain + len(self._ending)
            what = (
                f"all {busy} connections of this client of {self.label} are in use; its option "
                "pool= allows more"
                if busy >= self._settings.pool
                else f"{self.label} took no connection within {within:.3g} s"
            )
            given.set_exception(StoreUnavailable(what))

    def _grow(self, urgent: bool) -> None:
        """Make one more connection, if the limit allows it.

        Sessions that are ending count towards the limit, except for an urgent call.
        """
        most = self._settings.pool
        coming = self._connecting + (0 if urgent else len(self._ending))
        if not urgent and self._plain + coming >= most:
            return
        if len(self._wires) + coming <= most:
            self._connecting += 1
            self._work(self._connect())

    def _work(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        try:
            conn, peer = await dial(self._settings, CONNECT_S, self._ending.add)
        except HoldfastError as wrong:
            self._connecting -= 1
            while self._urgent or self._wanted:
                given = (self._urgent or self._wanted).popleft()
                if not given.done():
                    given.set_exception(type(wrong)(*wrong.args))
            return
        except BaseException:
            self._connecting -= 1
            raise
        self._connecting -= 1
        self._note(peer)
        wire = Wire(conn, peer, self._settings, self._free, self._over)
        self._wires.add(wire)
        self._free(wire)

    def _note(self, peer: said.Peer) -> None:
        """Record whether the server of a new connection can wake waiters."""
        others = [wire.peer for wire in self._wires]
        if self._ear is not None:
            others.append(self._ear.peer)
        if self._settings.sessions and peer.shares(others):
            if not self._shared:
                log.warning(SHARED, self.label)
            self._shared = True
        self.deaf = peer.pooled and (self._shared or not self._settings.sessions)

    def _free(self, wire: Wire) -> None:
        """Give an idle connection to the next caller that waits for one."""
        if wire.closed:
            return
        if wire.plain:
            self._back(wire)
        if self._closed:
            wire.close()
            return
        while self._urgent or (self._wanted and self._plain < self._settings.pool):
            urgent = bool(self._urgent)
            given = (self._urgent or self._wanted).popleft()
            if not given.done():
                given.set_result(self._lend(wire, urgent))
                return
        self._idle.append(wire)

    def _over(self, wire: Wire, ending: Ending) -> None:
        """Remove a connection that is no longer usable."""
        self._wires.discard(wire)
        self._back(wire)
        self._ended.set()
        if wire in self._idle:
            self._idle.remove(wire)
        if wire.ignored:  # the server had enough time, so its session no longer counts
            ending.end()
        else:
            self._ending.add(ending)
        self._replace()

    def _replace(self) -> None:
        if (self._urgent or self._wanted) and not self._closed:
            self._grow(bool(self._urgent))

    def _own(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            require_readers(loop, self.label)
            self._loop = loop
        elif self._loop is not loop:
            raise another_loop()

    # -- waiting -----------------------------------------------------------------------------

    def seat(self, claim_id: str) -> str:
        """Prepare to wake a claim; see the protocol."""
        if self._ear is None or self.deaf:
            return ""
        self._boxes.setdefault(claim_id, Box())
        return self._address

    async def listen(self, within: float) -> None:
        """Start to receive wake-ups; see the protocol."""
        self._own()
        if self._ear is not None or self.deaf or boottime() < self._mute_until:
            return
        if self._hearing is None or self._hearing.done():
            self._hearing = asyncio.get_running_loop().create_task(self._listen())
        await ended([self._hearing], within)

    async def _listen(self) -> None:
        try:
            conn, peer = await dial(self._settings, CONNECT_S, self._ending.add)
        except HoldfastError:
            self._mute_until = boottime() + MUTE_S
            return
        self._note(peer)
        if self.deaf or self._closed:
            conn.finish()
            return
        try:
            async with time_limit(CONNECT_S):
                await drive(said.listening(conn, self._address))
        except BaseException as wrong:
            conn.finish()
            if not isinstance(wrong, ServerSaid | TimeoutError | psycopg.Error):
                raise
            self._mute_until = boottime() + MUTE_S
            return
        self._ear = EarWire(conn, peer, self._heard, self._silent)

    def _heard(self, message: str) -> None:
        poke = poked(message)
        box = None if poke is None else self._boxes.get(poke[0])
        if poke is not None and box is not None:
            box.fence = poke[1]
            if box.ticket == poke[1]:
                box.wake()

    def _silent(self, ear: EarWire) -> None:
        """Wake all waiters after the end of the listener, so that they ask for their state."""
        if ear is self._ear:
            self._ear = None
            for box in self._boxes.values():
                box.wake()

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until woken; see the protocol."""
        if self.deaf:
            slept = self._naps[claim_id] = self._naps.get(claim_id, 0) + 1
            await sleep(max(0.0, min(seconds, back_off(slept, 1.0, NAP_S_MAX))))
            return None
        if self._ear is None:
            if self._hearing is not None and not self._hearing.done():
                await ended([self._hearing], seconds)
            else:  # the next request starts to listen; pause first if listening has just failed
                await sleep(max(0.0, min(seconds, self._mute_until - boottime())))
            return None
        box = self._boxes.setdefault(claim_id, Box())
        if box.fence != ticket:
            loop = asyncio.get_running_loop()
            box.ticket, box.sleep = ticket, loop.create_future()
            timer = later(loop, max(0.0, seconds), box.wake)
            try:
                await box.sleep
            finally:
                timer.cancel()
                box.sleep = None
        return Granted(ticket) if box.fence == ticket else None

    def unlisten(self, claim_id: str) -> None:
        """Forget a claim that no longer waits."""
        self._naps.pop(claim_id, None)
        self._boxes.pop(claim_id, None)

    # -- the end -----------------------------------------------------------------------------

    async def close(self) -> None:
        """End the connections, after the requests under way."""
        if self._loop is not None:
            self._own()
        if self._closed:
            return
        self._closed = True
        self._ending.close()
        for wire in list(self._idle):
            wire.close()
        with contextlib.suppress(TimeoutError):
            async with time_limit(CLOSE_S):
                while self._wires:
                    self._ended.clear()
                    await self._ended.wait()
        for wire in list(self._wires):
            wire.close()
        tasks = {*self._tasks, *([self._hearing] if self._hearing is not None else [])}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._ear is not None:
            self._ear.close()

    def abandon(self) -> None:
        """End the connections after the end of the loop, without using it."""
        self._closed = True
        for wire in (*self._wires, *([self._ear] if self._ear is not None else ())):
            wire.hang_up()
        self._wires.clear()
        self._ending.abandon()

    def forked(self) -> None:
        """Begin without state in the child of a fork, and keep the parent's objects unused."""
        _of_the_parent.append(
            (self._wires, self._ending, self._ear, self._tasks, self._hearing, self._loop)
        )
        self._start()
