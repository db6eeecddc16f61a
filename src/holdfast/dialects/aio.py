"""The port of dialects for one event loop: one connection for all requests.

On this connection the server also reports changed keys, to wake waiters (client tracking,
RESP3)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from ..runtime.blocking import boottime, walltime
from ..runtime.timers.aio import later
from ..stores.redis.aio.answer import Answer, new_answer, wake
from ..stores.redis.aio.connect import unheeded
from ..stores.redis.aio.port import LoopPort
from ..stores.redis.aio.wire import Wire
from ..stores.redis.config import Settings
from ..stores.redis.library import Script
from ..stores.redis.scripts import Call
from .port import Heard, T
from .telling import Telling


class Sleeper:
    """A claim that waits for a change of its key."""

    __slots__ = ("heard", "key", "waiter")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.heard = False
        self.waiter: Answer | None = None


class WatchingWire(Wire):
    """A connection that passes notifications of changed keys to the port."""

    #: True if the server sends notifications here; False with RESP2; None if the server wasn't
    #: asked yet, or has refused.
    tracks: bool | None = None
    port: WatchingLoopPort

    def _pushed(self, reply: Any, given: list[Answer]) -> None:
        if isinstance(reply, list) and len(reply) == 2 and reply[0] == b"invalidate":
            for answer in self.port.changed(reply[1]):
                given.append(answer)
                answer.give(None)
        else:
            super()._pushed(reply, given)


class WatchingLoopPort(LoopPort):
    """The port for one event loop; see the protocol :class:`holdfast.dialects.port.Port`."""

    _made_into = WatchingWire

    def __init__(self, settings: Settings, scripts: Sequence[Script] = ()) -> None:
        super().__init__(settings)
        self._own_scripts = scripts

    def _start(self) -> None:
        super()._start()
        self._sleepers: dict[str, Sleeper] = {}
        self._telling = Telling(self.label)

    def _new_wire(self, ear: bool = False) -> Wire:
        wire = super()._new_wire(ear)
        assert isinstance(wire, WatchingWire)
        wire._scripts = self._own_scripts
        wire.port = self
        return wire

    async def command(self, *words: bytes, within: float, heard: Heard | None = None) -> Any:
        """Send one command without a script; see the protocol."""
        wire, within = await self._reach(within)
        answer = wire.command(*words, within=within)
        if heard is None:
            return await answer
        answer.add_done_callback(partial(_tell, heard))
        return await asyncio.shield(answer)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Complete work that a cancellation must not interrupt; see the protocol."""
        task = self._own().create_task(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    async def watch(self, claim_id: str, key: bytes, call: Call, within: float) -> Any:
        """Send the call of a waiter; see the protocol."""
        wire, within = await self._reach(within)
        assert isinstance(wire, WatchingWire)
        if self._settings.protocol == 2:
            wire.tracks = False  # with RESP2 notifications need another connection
        if wire.tracks is None and self._telling.due(boottime()):
            said = await wire.command(b"CLIENT", b"TRACKING", b"ON", b"OPTIN", within=within)
            wire.tracks = self._telling.answered(said, boottime())
        sleeper = self._sleepers.get(claim_id)
        if sleeper is None:
            sleeper = self._sleepers[claim_id] = Sleeper(key)
        sleeper.heard = False
        if wire.tracks:  # sent directly before the call: it applies only to the next request
            cached = wire.command(b"CLIENT", b"CACHING", b"YES", within=within)
            cached.add_done_callback(unheeded)
        return await wire.send(call, within)

    def hears(self, claim_id: str) -> bool:
        """True if a notification of a change will arrive; see the protocol."""
        wire = self._wire
        return claim_id in self._sleepers and isinstance(wire, WatchingWire) and bool(wire.tracks)

    def hopes(self, claim_id: str) -> bool:
        """True if the next watch will ask the server for notifications; see the protocol."""
        wire = self._wire
        unknown = not isinstance(wire, WatchingWire) or wire.tracks is None
        return unknown and self._telling.due(boottime())

    async def await_change(self, claim_id: str, seconds: float) -> bool:
        """Sleep until the watched key has changed; see the protocol."""
        loop = self._own()
        sleeper = self._sleepers.setdefault(claim_id, Sleeper(b""))
        if sleeper.heard:
            return True
        waiter = sleeper.waiter = new_answer(loop)
        timer = later(loop, max(0.0, seconds), wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            sleeper.waiter = None
        return sleeper.heard

    def changed(self, keys: Iterable[bytes] | None) -> list[Answer]:
        """Note that these keys (None: all) have changed; return the sleeps that must end now."""
        found = None if keys is None else set(keys)
        ended = []
        for sleeper in self._sleepers.values():
            if found is None or sleeper.key in found:
                sleeper.heard = True
                if sleeper.waiter is not None and not sleeper.waiter.done():
                    ended.append(sleeper.waiter)
        return ended

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim; see the protocol."""
        self._sleepers.pop(claim_id, None)

    def _ended(self, wire: Wire) -> None:
        super()._ended(wire)
        for waiter in self.changed(None):  # so that the waiters send requests, which connect again
            wake(waiter)

    def wall(self) -> float:
        """The time of day; see the protocol."""
        return walltime()

    def now(self) -> float:
        """A clock that never jumps; see the protocol."""
        return boottime()


def _tell(heard: Heard, answer: asyncio.Future[Any]) -> None:
    """Call ``heard`` with the answer to a request, if there is one."""
    if not answer.cancelled() and answer.exception() is None:
        heard(answer.result())
