"""Measures the delay of a server; ``lag`` measures only the delay of this process.

A server that gets no processor for a second answers a second later, though this process was never
late. So, while cases run, a thread repeatedly sends each server a cheap request and records how
late each answer was.
"""

from __future__ import annotations

import contextlib
import threading
import urllib.parse
from collections import deque
from collections.abc import Generator

from ...errors import HoldfastError
from ...sync import Client
from ..faces import now

#: Seconds between an answer and the next request.
PAUSE_S = 0.05
#: Seconds that an answer may take without being late.
AT_REST_S = 0.03
#: Number of late answers that are remembered.
NOTES = 2_000

_lock = threading.Lock()
_pulses: dict[str, _Pulse] = {}


class _Pulse:
    """Sends requests to one store until it is stopped."""

    def __init__(self, url: str) -> None:
        self.users = 0
        self._url = url
        self._late: deque[tuple[float, float]] = deque(maxlen=NOTES)
        #: The time at which the unanswered request was sent; None if there is none.
        self._asked: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._main, name="holdfast-pulse", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(10.0)

    def late(self, begun: float) -> list[float]:
        """Return the delay of each late answer since ``begun``, and of the unanswered request."""
        asked = self._asked
        under_way = [] if asked is None else [now() - max(asked, begun) - AT_REST_S]
        return [late for when, late in list(self._late) if when > begun] + under_way

    def _main(self) -> None:
        with contextlib.suppress(HoldfastError), Client(self._url, label="pulse") as client:
            self._ask(client)  # not measured: it connects, which takes longer
            while not self._over.wait(PAUSE_S):
                self._asked = begun = now()
                self._ask(client)
                end = now()
                if end - begun > AT_REST_S:
                    self._late.append((end, end - begun - AT_REST_S))
                self._asked = None

    def _ask(self, client: Client) -> None:
        with contextlib.suppress(HoldfastError):
            client.inspect("holdfast-pulse", exact=True)


@contextlib.contextmanager
def felt(url: str) -> Generator[None]:
    """Measure the delay of this store during the body; do nothing if the store has no server."""
    if not urllib.parse.urlsplit(url).netloc or url.startswith("memory:"):
        yield
        return
    with _lock:
        pulse = _pulses.get(url) or _pulses.setdefault(url, _Pulse(url))
        pulse.users += 1
    try:
        yield
    finally:
        with _lock:
            pulse.users -= 1
            last = not pulse.users
            if last:
                del _pulses[url]
        if last:
            pulse.stop()


def since(begun: float) -> float:
    """Return the sum of the delays of the slowest server since ``begun``, in seconds."""
    return max((sum(map(_positive, one)) for one in _lates(begun)), default=0.0)


def most(begun: float) -> float:
    """Return the largest delay of one answer since ``begun``, in seconds."""
    return max((late for one in _lates(begun) for late in one), default=0.0)


def _lates(begun: float) -> list[list[float]]:
    return [pulse.late(begun) for pulse in list(_pulses.values())]


def _positive(late: float) -> float:
    return max(late, 0.0)
