"""The port for threads: a caller queues its requests and sleeps until kazoo's thread wakes it."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ....errors import HoldfastError, StoreUnavailable
from ....runtime.blocking import Bell, BlockingLatch, boottime
from ..config import Settings
from ..requests import Request
from .alarm import Alarm
from .answers import understood
from .driver import Driver, Slot

#: Maximum seconds between two checks whether there is a connection.
_LOOK_S = 0.05
#: The parent's objects in a forked child. These objects stay referenced: their garbage collection
#: would end the parent's session.
_of_the_parent: list[object] = []


class ThreadPort:
    """See :class:`holdfast.stores.zookeeper.port.Port`."""

    now = staticmethod(boottime)
    bell = BlockingLatch

    def __init__(self, settings: Settings) -> None:
        self.label = settings.label
        self.on_alarm: Callable[[], None] = _nothing
        self._settings = settings
        self._start()

    def _start(self) -> None:
        self._driver: Driver | None = None
        self._lock = threading.Lock()
        self._changed = Bell()
        self._alarm = Alarm(self._ring)
        self._closed = False

    def session(self) -> int:
        """Return the id of our current session; see the protocol."""
        driver = self._driver
        return driver.session() if driver is not None else 0

    def granted(self) -> float:
        """Return the length of the granted session in seconds; 0 if there is no session yet."""
        return self._driver.granted if self._driver is not None else 0.0

    def kazoo(self) -> Any:
        """Return the kazoo client; use it only for reading."""
        assert self._driver is not None, "nothing was asked yet"
        return self._driver.client

    async def ask(self, requests: Sequence[Request], until: float) -> list[Any]:
        """Send all requests at once, and wait for all answers; see the protocol."""
        driver = self._driver
        if driver is None or not driver.connected or driver.unfit is not None:
            driver = self._reach(until)
        if not requests:
            return []
        full = threading.Lock()
        full.acquire()
        count, many = itertools.count(1), len(requests)

        def tell() -> None:
            if next(count) == many:  # the last answer wakes the caller, once
                full.release()

        slots = [Slot(tell) for _ in requests]
        for request, slot in zip(requests, slots, strict=True):
            driver.send(request, slot)
        label = self.label
        if not full.acquire(timeout=max(0.0, until - boottime())):
            raise driver.unfit or StoreUnavailable(f"{label} gave no answer in time")
        if driver.unfit is not None:
            raise driver.unfit
        return [
            understood(request, slot.value, label)
            for request, slot in zip(requests, slots, strict=True)
        ]

    def post(self, request: Request, done: Callable[[Any], None]) -> None:
        """Send one request without waiting; see the protocol."""
        driver = self._driver
        if driver is None or not driver.connected:
            return

        def answered() -> None:
            with contextlib.suppress(HoldfastError):  # there was no answer
                done(understood(request, slot.value, self.label))

        slot = Slot(answered)
        driver.send(request, slot)

    def alarm(self, at: float) -> None:
        """Call ``on_alarm`` at this time; see the protocol."""
        self._alarm.at(at)

    async def close(self) -> None:
        """End the session; see the protocol."""
        with self._lock:
            self._closed = True
            driver, self._driver = self._driver, None
        self._alarm.stop()
        self._changed.set()
        if driver is not None:
            driver.stop()

    def forked(self) -> None:
        """Forget the parent's connection in the child of a fork; see the protocol."""
        driver = self._driver
        if driver is not None:
            driver.leak()
        _of_the_parent.append((driver, self._alarm, self._lock, self._changed))
        self._start()

    def _ring(self) -> None:
        self.on_alarm()

    # -- connecting --------------------------------------------------------------------------

    def _reach(self, until: float) -> Driver:
        """Wait until the driver is connected, and return it; make a driver if there is none."""
        while True:
            self._changed.clear()  # before the check, so that no later change is missed
            driver = self._current()
            if driver.unfit is not None:
                raise driver.unfit
            if driver.connected:
                return driver
            left = until - boottime()
            if left <= 0:
                raise StoreUnavailable(f"{self.label} took no connection in time")
            self._changed.wait(min(left, _LOOK_S))  # short: another caller may clear our wake-up

    def _current(self) -> Driver:
        with self._lock:
            if self._closed:
                raise StoreUnavailable(f"this client of {self.label} is closed")
            if self._driver is None or self._driver.over:
                self._driver = Driver(self._settings, self, self._driver)
                self._driver.start()
            return self._driver

    def silence(self) -> float:
        """Always 0: the thread that renews doesn't depend on a loop."""
        return 0.0

    def on_state(self) -> None:
        """Wake the callers that wait for a connection, after it was made or lost."""
        self._changed.set()


def _nothing() -> None:
    """Do nothing: no callback was set."""
