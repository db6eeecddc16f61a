"""The port of dialects for threads: each waiter has a separate connection.

On this connection the server reports changes of the waiter's key (client tracking, RESP3)."""

from __future__ import annotations

import math
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from ..runtime.blocking import boottime, walltime
from ..stores.redis.blocking.link import Link
from ..stores.redis.blocking.port import ThreadPort
from ..stores.redis.complaints import NOSCRIPT, ServerSaid
from ..stores.redis.config import Settings
from ..stores.redis.library import Script, packed
from ..stores.redis.scripts import Call
from .port import Heard, T
from .telling import Telling

_TRACK = packed(b"CLIENT", b"TRACKING", b"ON", b"OPTIN")
_CACHE = packed(b"CLIENT", b"CACHING", b"YES")


class WatchingLink(Link):
    """A connection that can receive notifications of changes of one key."""

    __slots__ = ("tracks", "watched")

    def __init__(self, driver: Any) -> None:
        super().__init__(driver)
        #: True if the server sends notifications here; False with RESP2; None if the server wasn't
        #: asked yet, or has refused.
        self.tracks: bool | None = None
        #: The key of the waiter.
        self.watched = b""

    def ask_watching(self, wire: bytes, key: bytes, until: float, telling: Telling) -> Any:
        """Send a request that reads this key, and ask for a notification of its next change."""
        now = boottime()
        self.watched = key
        if self.tracks is None and telling.due(now):
            self.tracks = telling.answered(self.ask(_TRACK, now, until), now)
        self.mail.clear()
        if not self.tracks:
            return self.ask(wire, now, until)
        return self.ask_many([_CACHE, wire], until)[1]

    def _file(self, said: Any) -> None:
        if isinstance(said, list) and len(said) == 2 and said[0] == b"invalidate":
            keys = said[1]  # None means all keys: the database was flushed
            if self.watched and (keys is None or self.watched in keys):
                self.mail.append(self.watched)
        else:
            super()._file(said)


class Seat:
    """The port's entry for one waiter: the waiter's connection, or None."""

    __slots__ = ("link",)

    def __init__(self) -> None:
        self.link: Link | None = None


class SeatedThreadPort(ThreadPort):
    """A port with a separate connection for each waiter.

    So the number of connections has no limit. Renewals and releases have reserved connections."""

    _few = _most = math.inf

    def __init__(self, settings: Settings, scripts: Sequence[Script] = ()) -> None:
        super().__init__(settings)
        self._scripts = scripts

    def _start(self) -> None:
        super()._start()
        self._seats: dict[str, Seat] = {}

    def _seated(self, claim_id: str, now: float, until: float) -> tuple[Seat, Link]:
        """Return the seat of this claim and its connection."""
        seat = self._seats.setdefault(claim_id, Seat())
        link = seat.link
        if link is None or link.dead:
            link = seat.link = self._take(now, until)
        return seat, link

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim; see the protocol."""
        seat = self._seats.pop(claim_id, None)
        if seat is not None and seat.link is not None:
            link, seat.link = seat.link, None
            self._give(link, None)


class WatchingThreadPort(SeatedThreadPort):
    """The protocol of the methods is :class:`holdfast.dialects.port.Port`."""

    _link = WatchingLink

    def _start(self) -> None:
        super()._start()
        self._telling = Telling(self.label)

    async def command(self, *words: bytes, within: float, heard: Heard | None = None) -> Any:
        """Send one command without a script; see the protocol."""
        now = boottime()
        until = now + within
        link = self._take(now, until, None)
        try:
            reply = link.ask(packed(*words), now, until)
            if heard is not None:
                heard(reply)
        except BaseException as wrong:
            self._broken(link, wrong, within)
        self._give(link, reply)
        return reply

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Complete work that must not be interrupted; see the protocol."""
        return await work

    async def watch(self, claim_id: str, key: bytes, call: Call, within: float) -> Any:
        """Send the call of a waiter; see the protocol."""
        now = boottime()
        until = now + within
        seat, link = self._seated(claim_id, now, until)
        try:
            reply = self._ask_watching(link, key, call, until)
        except BaseException as wrong:
            seat.link = None
            self._broken(link, wrong, within)
        if isinstance(reply, ServerSaid):
            seat.link = None
            self._give(link, reply)
        return reply

    def _ask_watching(self, link: Link, key: bytes, call: Call, until: float) -> Any:
        assert isinstance(link, WatchingLink)
        if self._dialler.protocol == 2:
            link.tracks = False  # with RESP2 notifications need another connection
        reply = link.ask_watching(self._wire(link, call), key, until, self._telling)
        if isinstance(reply, ServerSaid) and reply.code == NOSCRIPT:
            wrong = self._load(link, until)
            if wrong is None:
                reply = link.ask_watching(self._wire(link, call), key, until, self._telling)
            else:
                reply = wrong
        return reply

    def hears(self, claim_id: str) -> bool:
        """True if a notification of a change will arrive; see the protocol."""
        seat = self._seats.get(claim_id)
        link = seat.link if seat is not None else None
        return isinstance(link, WatchingLink) and link.tracks is True and not link.dead

    def hopes(self, claim_id: str) -> bool:
        """True if the next watch will ask the server for notifications; see the protocol."""
        seat = self._seats.get(claim_id)
        link = seat.link if seat is not None else None
        unknown = not isinstance(link, WatchingLink) or link.tracks is None
        return unknown and self._telling.due(boottime())

    async def await_change(self, claim_id: str, seconds: float) -> bool:
        """Sleep until the watched key has changed; see the protocol."""
        seat = self._seats.get(claim_id)
        link = seat.link if seat is not None else None
        if seat is None or not isinstance(link, WatchingLink) or not link.tracks:
            time.sleep(max(0.0, seconds))
            return False
        try:
            return link.listen(link.watched, boottime() + seconds)
        except BaseException as wrong:
            seat.link = None
            self._drop(link)
            if isinstance(wrong, OSError | ValueError):
                return True  # so that the waiter sends a request, which connects again
            raise

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim; see the protocol."""
        seat = self._seats.get(claim_id)
        if seat is not None and isinstance(seat.link, WatchingLink):
            seat.link.watched = b""
            seat.link.mail.clear()
        super().unlisten(claim_id)

    def wall(self) -> float:
        """The time of day; see the protocol."""
        return walltime()

    def now(self) -> float:
        """A clock that never jumps; see the protocol."""
        return boottime()
