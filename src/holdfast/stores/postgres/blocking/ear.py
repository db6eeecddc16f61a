"""Wake-ups for waiting threads: one connection listens for all of them.

One of the waiters reads it, and the others sleep. It hands on what isn't for itself, and when it
goes, another one takes over. So no thread is started for that.
"""

from __future__ import annotations

import secrets

import psycopg

from ....core.model import Granted
from ....runtime.blocking import Bell, Turn, boottime
from .link import Link
from .wire import poked

#: Maximum number of seconds that one look for wake-ups lasts.
_TURN_S = 1.0


class Box:
    """Where a claim waits: the fence of its last wake-up, and what wakes it."""

    __slots__ = ("bell", "fence", "sleeps")

    def __init__(self) -> None:
        self.fence = 0
        self.sleeps = False
        self.bell = Bell()


class Ear:
    """The connection that listens, and all who wait."""

    def __init__(self) -> None:
        #: The channel. It stays the same over every new connection: the lines know it.
        self.address = f"holdfast_{secrets.token_hex(9)}"
        self.link: Link | None = None
        self._boxes: dict[str, Box] = {}
        self._reading = Turn()

    def box(self, claim_id: str) -> None:
        """From now on wake-ups for this claim are kept."""
        self._boxes.setdefault(claim_id, Box())

    def forget(self, claim_id: str) -> None:
        """Nobody waits with this claim any more."""
        self._boxes.pop(claim_id, None)

    def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep at most ``seconds`` until the wake-up for this claim and ticket is here; None if it
        isn't, or when the connection has died."""
        until = boottime() + seconds
        box = self._boxes.setdefault(claim_id, Box())
        try:
            box.sleeps = True
            while box.fence != ticket:
                left = until - boottime()
                link = self.link
                if left <= 0 or link is None:
                    return None
                if self._reading.take(box):
                    self._read(link, box, ticket, until)
                    self._reading.leave(box)
                else:
                    box.bell.wait(left)
                    box.bell.clear()
            return Granted(ticket)
        finally:
            box.sleeps = False
            self._reading.leave(box)
            self._hand_on()

    def _read(self, link: Link, box: Box, ticket: int, until: float) -> None:
        try:
            while box.fence != ticket and (left := until - boottime()) > 0:
                for message in link.heard(min(left, _TURN_S)):
                    self._deliver(message)
                if link is not self.link:
                    return
        except BaseException as wrong:
            if link is self.link:
                self.link = None
            link.close()
            self.ring()
            if not isinstance(wrong, psycopg.OperationalError | OSError):
                raise

    def _deliver(self, message: str) -> None:
        poke = poked(message)
        box = None if poke is None else self._boxes.get(poke[0])
        if poke is not None and box is not None:
            box.fence = poke[1]
            box.bell.set()

    def _hand_on(self) -> None:
        """If nobody reads now, one of those who sleep must."""
        if self._reading.taken():
            return
        for box in list(self._boxes.values()):
            if box.sleeps:
                box.bell.set()
                return

    def ring(self) -> None:
        """Wake all who sleep, as they must ask."""
        for box in list(self._boxes.values()):
            box.bell.set()
