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

#: What is put down in place of whatever was published: that something was is all that matters.
_HEARD = b"0"


class ChannelLink(Link):
    """A connection that hears what is published on one channel at a time."""

    __slots__ = ("channel",)

    def __init__(self, driver: Any) -> None:
        super().__init__(driver)
        self.channel = b""

    def tune(self, channel: bytes, until: float) -> ServerSaid | None:
        """Hear this channel; what the server said if it doesn't let us."""
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
        """Hear no channel any more. Nothing is waited for: the answer is read some time."""
        if self.channel:
            self._send(packed(b"UNSUBSCRIBE", self.channel))
            self.channel, self.subscribed = b"", False

    def _file(self, said: Any) -> None:
        if isinstance(said, list) and len(said) == 3 and said[:2] == [b"message", self.channel]:
            self.mail.append(_HEARD)


class ChannelThreadPort(SeatedThreadPort):
    """See :class:`holdfast.dialects.redisson.store.Port`."""

    _link = ChannelLink

    async def listen(self, claim_id: str, channel: bytes, call: Call, within: float) -> Any:
        """Subscribe, then send the call of a claim that waits; see the protocol."""
        now = boottime()
        until = now + within
        seat, link = self._seated(claim_id, now, until)
        try:
            if now >= self._deaf_until:
                ear = self._ear_of(link, until)
                refusal = ear.tune(channel, until)
                if refusal is not None:
                    self._refused(refusal)
                ear.mail.clear()  # what was heard before is answered by what follows
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
        """The connection on which this one's messages arrive."""
        ear: Link = link
        if self._dialler.protocol == 2:
            if link.ear is None or link.ear.dead:
                link.ear = self._dial(until)
            ear = link.ear
        assert isinstance(ear, ChannelLink)
        return ear

    async def sleep(self, claim_id: str, seconds: float) -> None:
        """Sleep until something is heard; see the protocol."""
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
        """The claim waits no more; see the protocol."""
        seat = self._seats.pop(claim_id, None)
        if seat is not None and seat.link is not None:
            link, seat.link = seat.link, None
            if self._part(link):
                self._give(link, None)

    def _part(self, link: Link) -> bool:
        """The connection is for others from now on; False if it is of no use to them."""
        ear = link.ear or link
        try:
            if isinstance(ear, ChannelLink):
                ear.leave_channel()
        except OSError:
            self._drop(link)
            return False
        return True
