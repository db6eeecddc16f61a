"""The port for one event loop: one connection, and one subscription per channel with waiters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...errors import StoreUnavailable
from ...runtime.blocking import boottime
from ...runtime.timers.aio import later, sleep
from ...stores.redis.aio.answer import Answer, new_answer, wake
from ...stores.redis.aio.connect import connect, unheeded
from ...stores.redis.aio.exchange import BY_PUSH
from ...stores.redis.aio.port import MUTE_S, SIGN_S, SILENT_S, LoopPort
from ...stores.redis.aio.shared import Shared
from ...stores.redis.aio.wire import Wire
from ...stores.redis.complaints import ServerSaid, complaint
from ...stores.redis.config import Settings
from ...stores.redis.library import Script
from ...stores.redis.scripts import Call

#: Maximum seconds for an UNSUBSCRIBE, whose answer is ignored.
_PART_S = 5.0
#: A message on a channel with this prefix wakes one waiter; on other channels it wakes all waiters.
_FOR_ONE = b"redisson_lock__channel:"


class Sleeper:
    """A waiter. ``told``: a message has arrived since the waiter's last request."""

    __slots__ = ("channel", "told", "waiter")

    def __init__(self, channel: bytes) -> None:
        self.channel = channel
        self.told = False
        self.waiter: Answer | None = None


class ChannelWire(Wire):
    """A connection that passes published messages to the port, by channel."""

    port: ChannelLoopPort

    def _pushed(self, reply: Any, given: list[Answer]) -> None:
        if not isinstance(reply, list) or reply[0] not in (b"message", b"unsubscribe"):
            super()._pushed(reply, given)
        elif reply[0] == b"message":
            for answer in self.port.published(reply[1]):
                given.append(answer)
                answer.give(None)
        else:
            answer, tag, *_ = self._pending[0]
            if tag is not BY_PUSH:
                raise ValueError("a push came in place of a reply")
            self._pending.popleft()
            if not answer.done():
                answer.set_result(None)


class ChannelLoopPort(LoopPort):
    """The protocol of the methods is :class:`holdfast.dialects.redisson.store.Port`."""

    _made_into = ChannelWire

    def __init__(self, settings: Settings, scripts: Sequence[Script]) -> None:
        super().__init__(settings)
        self._own_scripts = scripts

    def _start(self) -> None:
        super()._start()
        #: The waiters, in order of arrival.
        self._sleepers: dict[str, Sleeper] = {}
        #: The subscribed channels; the number of waiters by channel; the subscriptions under way.
        self._heard_of: set[bytes] = set()
        self._wanted: dict[bytes, int] = {}
        self._subscribing: dict[bytes, Shared[None]] = {}

    def _new_wire(self, ear: bool = False) -> Wire:
        wire = super()._new_wire(ear)
        assert isinstance(wire, ChannelWire)
        wire._scripts = self._own_scripts
        wire.port = self
        return wire

    # -- waiting ---------------------------------------------------------------------------

    async def listen(self, claim_id: str, channel: bytes, call: Call, within: float) -> Any:
        """Subscribe, then send the call of a waiter; see the protocol."""
        begun = boottime()
        await self._reach(within)
        sleeper = self._sleepers.get(claim_id)
        if sleeper is None:
            sleeper = self._sleepers[claim_id] = Sleeper(channel)
            self._wanted[channel] = self._wanted.get(channel, 0) + 1
        if channel not in self._heard_of and not self._deaf and boottime() >= self._mute_until:
            try:
                # At most half of the time: the rest is for the claim's request, which must be sent.
                left = (within - (boottime() - begun)) / 2
                await self._subscription(channel).wait(left, f"could not subscribe at {self.label}")
            except StoreUnavailable:
                self._mute_until = boottime() + MUTE_S
        ear = self._ear
        if ear is not None and ear is not self._wire and boottime() > ear.heard_at + SILENT_S:
            ear.confirmed(b"PING", within=SIGN_S).add_done_callback(unheeded)
        sleeper.told = False  # the answer to this call is newer than earlier messages
        return await self.ask(call, within - (boottime() - begun))

    async def sleep(self, claim_id: str, seconds: float) -> None:
        """Sleep until a message arrives; see the protocol."""
        loop = self._own()
        sleeper = self._sleepers.get(claim_id)
        if sleeper is None:
            await sleep(seconds)
            return
        lost = sleeper.channel not in self._heard_of and not self._deaf
        if sleeper.told or (lost and boottime() >= self._mute_until):
            return
        waiter = sleeper.waiter = new_answer(loop)
        timer = later(loop, max(0.0, seconds), wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            sleeper.waiter = None

    def now(self) -> float:
        """A clock that never jumps; see the protocol."""
        return boottime()

    def published(self, channel: bytes) -> list[Answer]:
        """Note a message on this channel; return the sleeps that it ends.

        The end of a lock wakes only the first waiter. If that waiter gives up after the wake-up,
        `unlisten` wakes the next waiter.
        """
        ended: list[Answer] = []
        for sleeper in self._sleepers.values():
            if sleeper.channel == channel and not sleeper.told:
                sleeper.told = True
                if sleeper.waiter is not None and not sleeper.waiter.done():
                    ended.append(sleeper.waiter)
                if channel.startswith(_FOR_ONE):
                    break
        return ended

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim; see the protocol."""
        sleeper = self._sleepers.pop(claim_id, None)
        if sleeper is None:
            return
        channel = sleeper.channel
        if sleeper.told:
            for answer in self.published(channel):
                wake(answer)
        self._wanted[channel] -= 1
        if not self._wanted[channel]:
            del self._wanted[channel]
            self._part(channel)

    # -- channels --------------------------------------------------------------------------

    def _subscription(self, channel: bytes) -> Shared[None]:
        undertaking = self._subscribing.get(channel)
        if undertaking is None:
            undertaking = self._subscribing[channel] = Shared(partial(self._tune, channel))
        return undertaking

    async def _listen(self) -> None:
        """Set the connection for subscriptions: the one for requests, or with RESP2 a new one."""
        limit = self._attempt_s()
        ear, _ = await self._reach(limit)
        if self._settings.protocol == 2:
            ear = self._new_wire(ear=True)
            await connect(self._settings, ear, limit)
        self._ear = None if ear.over else ear

    async def _tune(self, channel: bytes) -> None:
        """Subscribe to a channel."""
        limit = self._attempt_s()
        if self._ear is None:
            await self._listening.wait(limit, f"could not subscribe at {self.label}")
        ear = self._ear
        if ear is None:
            raise StoreUnavailable(f"the connection to {self.label} was lost")
        try:
            reply = await ear.confirmed(b"SUBSCRIBE", channel, within=limit)
        except BaseException:
            self._subscribing.pop(channel, None)
            raise
        if not isinstance(reply, ServerSaid):
            if not ear.over:
                self._heard_of.add(channel)
            if channel not in self._wanted:
                self._part(channel)
        elif isinstance(wrong := complaint(reply, self.label), StoreUnavailable):
            raise wrong
        else:
            self._refused(reply)

    def _part(self, channel: bytes) -> None:
        """Unsubscribe from a channel without waiters."""
        if channel in self._heard_of:
            self._heard_of.discard(channel)
            self._subscribing.pop(channel, None)
            if self._ear is not None:
                parted = self._ear.confirmed(b"UNSUBSCRIBE", channel, within=_PART_S)
                parted.add_done_callback(unheeded)

    def _ended(self, wire: Wire) -> None:
        """Wake all waiters after the connection was lost: their next requests connect again."""
        if wire is self._ear:
            self._heard_of.clear()
            for sleeper in self._sleepers.values():
                sleeper.told = True
                if sleeper.waiter is not None:
                    wake(sleeper.waiter)
        super()._ended(wire)

    async def close(self) -> None:
        """Close the connections."""
        await super().close()
        for undertaking in list(self._subscribing.values()):
            await undertaking.cancel()
