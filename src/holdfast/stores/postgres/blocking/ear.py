"""Wake-ups for waiting threads: one connection listens for all of them.

One of the waiting threads reads the connection, and the others sleep. The reader delivers the
wake-ups of the other waiters. When it stops waiting, another waiter becomes the reader. So no
separate thread is needed.
"""

from __future__ import annotations

import secrets

import psycopg

from ....core.model import Granted
from ....runtime.blocking import Bell, Turn, boottime
from .link import Link
from .wire import poked

#: Maximum seconds for which one read of wake-ups waits.
_TURN_S = 1.0


class Box:
    """State of a waiter: the fence of its last wake-up, and the bell that wakes it."""

    __slots__ = ("bell", "fence", "sleeps")

    def __init__(self) -> None:
        self.fence = 0
        self.sleeps = False
        self.bell = Bell()


class Ear:
    """The connection that listens, and all waiters of a client."""

    def __init__(self) -> None:
        #: The channel. Every new connection listens to this channel, because the rows of waiters
        #: contain it.
        self.address = f"holdfast_{secrets.token_hex(9)}"
        self.link: Link | None = None
        self._boxes: dict[str, Box] = {}
        self._reading = Turn()

    def box(self, claim_id: str) -> None:
        """From this call on, record the wake-ups for this claim."""
        self._boxes.setdefault(claim_id, Box())

    def forget(self, claim_id: str) -> None:
        """Forget a claim that no longer waits."""
        self._boxes.pop(claim_id, None)

    def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until the wake-up for this claim and ticket arrives, at most ``seconds``.

        Return None if the wake-up doesn't arrive, or if the connection has ended.
        """
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
        """If no waiter reads the connection now, wake a sleeping waiter, which then reads it."""
        if self._reading.taken():
            return
        for box in list(self._boxes.values()):
            if box.sleeps:
                box.bell.set()
                return

    def ring(self) -> None:
        """Wake all sleeping waiters, so that they ask the server for their state."""
        for box in list(self._boxes.values()):
            box.bell.set()
