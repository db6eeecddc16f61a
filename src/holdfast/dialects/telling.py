"""Remembers whether a server allows notifications of changed keys, and when to ask again.

The server's first refusal is logged. A port has one `Telling` for all of its connections."""

from __future__ import annotations

import logging
import math

from ..errors import StoreUnavailable
from ..stores.redis.complaints import ServerSaid, complaint

log = logging.getLogger("holdfast")

#: Seconds from a refusal to the next request: an administrator can grant the right in this time.
DEAF_S = 30.0
UNTOLD = (
    "%s refuses notifications of changed keys (%s): waiters ask about once a second; tried again "
    "every %g s. Give the right to CLIENT TRACKING, or set protocol=2"
)


class Telling:
    """The server's answers to the request for notifications."""

    __slots__ = ("_label", "_not_before", "_said")

    def __init__(self, label: str) -> None:
        self._label = label
        self._not_before = -math.inf
        self._said = False

    def due(self, now: float) -> bool:
        """Return True if a connection that has no answer yet may ask the server now."""
        return now >= self._not_before

    def answered(self, said: object, now: float) -> bool | None:
        """Record an answer; return True if it allows notifications, None if a new try is needed."""
        if not isinstance(said, ServerSaid):
            self._said = False
            return True
        if not isinstance(complaint(said, self._label), StoreUnavailable):  # not a temporary error
            self._not_before = now + DEAF_S
            if not self._said:
                self._said = True
                log.warning(UNTOLD, self._label, said, DEAF_S)
        return None
