"""The port for one event loop: kazoo's thread sends and receives, and wakes the loop.

The answers to requests that are sent together arrive in order, so only the last answer wakes the
loop. The requests of a cancelled task are still carried out, before all requests that are sent
later.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import HoldfastError, StoreUnavailable
from ...runtime.aio import AioLatch, another_loop, call_in
from ...runtime.blocking import boottime
from ...runtime.timers.aio import later
from .blocking.answers import understood
from .blocking.driver import Driver, Slot
from .config import Settings
from .requests import Request

#: The parent's objects in a forked child. These objects stay referenced: their garbage collection
#: would end the parent's session.
_of_the_parent: list[object] = []


class LoopPort:
    """See :class:`holdfast.stores.zookeeper.port.Port`."""

    now = staticmethod(boottime)
    bell = AioLatch

    def __init__(self, settings: Settings) -> None:
        self.label = settings.label
        self.on_alarm: Callable[[], None] = _nothing
        self._settings = settings
        self._start()

    def _start(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._driver: Driver | None = None
        self._timer: asyncio.Handle | None = None
        self._rings_at = 0.0
        #: Latches of the callers that wait for a connection.
        self._arrivals: set[AioLatch] = set()
        self._closed = False
        #: Start time of the pending test whether the loop runs; None: no test is pending.
        self._asked: float | None = None

    def session(self) -> int:
        """Return the id of our current session; see the protocol."""
        return self._driver.session() if self._driver is not None else 0

    async def ask(self, requests: Sequence[Request], until: float) -> list[Any]:
        """Send all requests at once, and wait for all answers; see the protocol."""
        loop = self._own()
        driver = self._driver
        if driver is None or not driver.connected or driver.unfit is not None:
            driver = await self._reach(until)
        done: asyncio.Future[bool] = loop.create_future()
        count = itertools.count(1)
        many = len(requests)

        def tell() -> None:
            if next(count) == many:
                _from_outside(loop, _resolve, done, True)

        slots = [Slot(tell) for _ in requests]
        for request, slot in zip(requests, slots, strict=True):
            driver.send(request, slot)
        if requests:
            timer = later(loop, max(0.0, until - boottime()), _resolve, done, False)
            try:
                answered = await done
            finally:
                timer.cancel()
            if driver.unfit is not None:
                raise driver.unfit
            if not answered:
                raise StoreUnavailable(f"{self.label} gave no answer in time")
        label = self.label
        return [
            understood(request, slot.value, label)
            for request, slot in zip(requests, slots, strict=True)
        ]

    def post(self, request: Request, done: Callable[[Any], None]) -> None:
        """Send one request without waiting; see the protocol."""
        driver, loop = self._driver, self._loop
        if driver is None or loop is None or not driver.connected:
            return

        def answered() -> None:
            with contextlib.suppress(HoldfastError):  # there was no answer
                done(understood(request, slot.value, self.label))

        slot = Slot(lambda: _from_outside(loop, answered))
        driver.send(request, slot)

    def alarm(self, at: float) -> None:
        """Call ``on_alarm`` at this time; see the protocol."""
        loop = self._own()
        if self._timer is not None:
            if self._rings_at <= at:
                return
            self._timer.cancel()
        self._rings_at = at
        self._timer = later(loop, max(0.0, at - boottime()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.on_alarm()

    async def close(self) -> None:
        """End the session; see the protocol."""
        loop = self._own()
        self._closed = True
        driver, self._driver = self._driver, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for latch in list(self._arrivals):
            latch.set()
        if driver is not None:
            await loop.run_in_executor(None, driver.stop)

    def abandon(self) -> None:
        """End the session after our loop has ended; the session's thread needs no loop."""
        self._closed = True
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.let_go()

    def forked(self) -> None:
        """Forget the parent's connection in the child of a fork; see the protocol."""
        if self._driver is not None:
            self._driver.leak()
        _of_the_parent.append((self._driver, self._timer, self._loop))
        self._start()

    # -- connecting --------------------------------------------------------------------------

    def _own(self) -> asyncio.AbstractEventLoop:
        """Return the running loop; raise an error if the port belongs to another loop."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise another_loop()
        return loop

    async def _reach(self, until: float) -> Driver:
        """Wait until the driver is connected, and return it; make a driver if there is none."""
        latch = AioLatch()
        self._arrivals.add(latch)
        try:
            while True:
                driver = self._current()
                if driver.unfit is not None:
                    raise driver.unfit
                if driver.connected:
                    return driver
                if not await latch.wait(max(0.0, until - boottime())):
                    raise StoreUnavailable(f"{self.label} took no connection in time")
        finally:
            self._arrivals.discard(latch)

    def _current(self) -> Driver:
        if self._closed:
            raise StoreUnavailable(f"this client of {self.label} is closed")
        if self._driver is None or self._driver.over:
            self._asked = None  # the loop runs
            self._driver = Driver(self._settings, self, self._driver)
            self._driver.start()
        return self._driver

    def silence(self) -> float:
        """Return for how many seconds a test whether our loop runs has been pending.

        The test is a callback. If the loop has run the last callback, schedule another callback and
        return 0.
        """
        asked, now = self._asked, boottime()
        if asked is not None:
            return now - asked
        self._asked = now
        if self._loop is not None:
            call_in(self._loop, self._answer)
        return 0.0

    def _answer(self) -> None:
        self._asked = None

    def on_state(self) -> None:
        """Wake the callers that wait for a connection, after it was made or lost."""
        for latch in list(self._arrivals):
            latch.set()


def _from_outside(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *what: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(call, *what)


def _resolve(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)


def _nothing() -> None:
    """Do nothing: no callback was set."""
