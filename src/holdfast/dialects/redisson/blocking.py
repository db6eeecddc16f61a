"""The port for threads: a waiter has a separate connection, subscribed to one channel."""

from __future__ import annotations

import time
from typing import Any

from ...runtime.blocking import boottime
from ...stores.redis.blocking.link import Link
from ...stores.redis.complaints import ServerSaid
from ...stores.redis.library import packed
from ...stores.redis.scripts import Call
from ..blocking import SeatedThreadPort

#: The entry in ``Link.mail`` (arrived messages) for a message, whose content doesn't matter.
_HEARD = b"0"


class ChannelLink(Link):
    """A connection that is subscribed to one channel at a time."""

    __slots__ = ("channel",)

    def __init__(self, driver: Any) -> None:
        super().__init__(driver)
        self.channel = b""

    def tune(self, channel: bytes, until: float) -> ServerSaid | None:
        """Subscribe to this channel; return the server's error if it refuses."""
        if self.channel == channel:
            return None
        self.leave_channel()
        self.mail.clear()
        self.channel = channel
        refusal = self.subscribe(channel, until)
        if refusal is not None:
            self.channel = b""
        return refusal

    def leave_channel(self) -> None:
        """End the subscription. Don't wait for the answer, which is read later."""
        if self.channel:
            self._send(packed(b"UNSUBSCRIBE", self.channel))
            self.channel, self.subscribed = b"", False

    def _file(self, said: Any) -> None:
        if isinstance(said, list) and len(said) == 3 and said[:2] == [b"message", self.channel]:
            self.mail.append(_HEARD)


class ChannelThreadPort(SeatedThreadPort):
    """The protocol of the methods is :class:`holdfast.dialects.redisson.store.Port`."""

    _link = ChannelLink

    async def listen(self, claim_id: str, channel: bytes, call: Call, within: float) -> Any:
        """Subscribe, then send the call of a waiter; see the protocol."""
        now = boottime()
        until = now + within
        seat, link = self._seated(claim_id, now, until)
        try:
            if now >= self._deaf_until:
                ear = self._ear_of(link, until)
                refusal = ear.tune(channel, until)
                if refusal is not None:
                    self._refused(refusal)
                ear.mail.clear()  # the answer to this call is newer than earlier messages
            reply = link.ask(self._wire(link, call), boottime(), until)
            if isinstance(reply, ServerSaid):
                reply = self._mended(link, call, reply, until)
        except BaseException as wrong:
            seat.link = None
            self._broken(link, wrong, within)
        if isinstance(reply, ServerSaid):
            seat.link = None
            self._part(link)
            self._give(link, reply)
        return reply

    def _ear_of(self, link: Link, until: float) -> ChannelLink:
        """Return the connection that receives messages for ``link``: with RESP2 a second one."""
        ear: Link = link
        if self._dialler.protocol == 2:
            if link.ear is None or link.ear.dead:
                link.ear = self._dial(until)
            ear = link.ear
        assert isinstance(ear, ChannelLink)
        return ear

    async def sleep(self, claim_id: str, seconds: float) -> None:
        """Sleep until a message arrives; see the protocol."""
        seat = self._seats.get(claim_id)
        if boottime() < self._deaf_until or seat is None:
            time.sleep(max(0.0, seconds))
            return
        link = seat.link
        if link is None:
            return
        try:
            (link.ear or link).listen(_HEARD, boottime() + seconds)
        except BaseException as wrong:
            seat.link = None
            self._drop(link)
            if not isinstance(wrong, OSError | ValueError):
                raise

    def now(self) -> float:
        """A clock that never jumps; see the protocol."""
        return boottime()

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim; see the protocol."""
        seat = self._seats.pop(claim_id, None)
        if seat is not None and seat.link is not None:
            link, seat.link = seat.link, None
            if self._part(link):
                self._give(link, None)

    def _part(self, link: Link) -> bool:
        """Make the connection ready for other claims; return False if it has failed."""
        ear = link.ear or link
        try:
            if isinstance(ear, ChannelLink):
                ear.leave_channel()
        except OSError:
            self._drop(link)
            return False
        return True
