"""The server's notifications of changed keys: the log line when it refuses them, and the time of
the next request. Both ports have one of these, for all of their connections."""

from __future__ import annotations

import logging
import math

from ..errors import StoreUnavailable
from ..stores.redis.complaints import ServerSaid, complaint

log = logging.getLogger("holdfast")

#: When the server has refused, it isn't asked again before this number of seconds: somebody may
#: have given the right meanwhile.
DEAF_S = 30.0
UNTOLD = (
    "%s doesn't tell of changes of keys (%s): waiters ask about once a second; tried again every "
    "%g s. Give the right to CLIENT TRACKING, or say protocol=2"
)


class Telling:
    """What is known of the server's answers to the question whether it tells of changes."""

    __slots__ = ("_label", "_not_before", "_said")

    def __init__(self, label: str) -> None:
        self._label = label
        self._not_before = -math.inf
        self._said = False

    def due(self, now: float) -> bool:
        """May the server be asked, where a connection doesn't know it?"""
        return now >= self._not_before

    def answered(self, said: object, now: float) -> bool | None:
        """Does it tell, by this answer? None: the next try asks again, once that is due."""
        if not isinstance(said, ServerSaid):
            self._said = False
            return True
        if not isinstance(complaint(said, self._label), StoreUnavailable):  # else it passes
            self._not_before = now + DEAF_S
            if not self._said:
                self._said = True
                log.warning(UNTOLD, self._label, said, DEAF_S)
        return None
