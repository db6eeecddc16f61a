"""The crew: worker processes, the pipes to them, and what befalls them.

The processes are forked, not started anew, so that they run wherever this one does and are there
in milliseconds. They are forked before anything here has a lock, a thread or a client.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

from ...runtime.blocking import boottime
from . import worker
from .history import Event, What, decode
from .worker import Order

#: Nothing in the story takes as long as this many seconds, unless something is wrong.
PATIENCE_S = 20.0
#: A worker that has nothing to do is gone in milliseconds.
DISMISS_S = 2.0
_READ_BYTES = 1 << 16


class StoryError(Exception):
    """The story can't go on: a worker failed, died unasked, or didn't do its part in time."""


class Member:
    """One worker as the story sees it."""

    def __init__(self, name: str, pid: int, orders: BinaryIO, events: int) -> None:
        self.name = name
        self.pid = pid
        self.orders = orders
        self.events = events
        self.gone = False
        self._rest = b""

    def received(self, data: bytes) -> list[Event]:
        """The events that are complete now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [decode(line) for line in lines]


class Crew:
    """Worker processes ``w1`` to ``wN``; a context manager that leaves none behind."""

    def __init__(self, size: int, store: Path, path: Path, seed: int) -> None:
        self.events: list[Event] = []
        self.members: dict[str, Member] = {}
        self._selector = selectors.DefaultSelector()
        self._unheard: deque[Event] = deque()
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            for seat in range(1, size + 1):
                self._fork(f"w{seat}", store, path, seed)
        except BaseException:
            self.close()
            raise

    def _fork(self, name: str, store: Path, path: Path, seed: int) -> None:
        orders_in, orders_out = os.pipe()
        events_in, events_out = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                # Else a worker would keep its brothers from seeing that the story is over.
                for brother in self.members.values():
                    os.close(brother.orders.fileno())
                    os.close(brother.events)
                os.close(orders_out)
                os.close(events_in)
                orders, events = os.fdopen(orders_in, "rb"), os.fdopen(events_out, "wb")
                status = worker.main(name, store, path, seed, orders, events)
            finally:
                os._exit(status)  # because everything above us belongs to the parent
        os.close(orders_in)
        os.close(events_out)
        os.set_blocking(events_in, False)
        self.members[name] = Member(name, pid, os.fdopen(orders_out, "wb"), events_in)
        self._selector.register(events_in, selectors.EVENT_READ, self.members[name])

    # -- orders and events -------------------------------------------------------------------

    def alive(self) -> list[str]:
        """The names of those who are still there."""
        return [member.name for member in self.members.values() if not member.gone]

    def order(self, name: str, order: Order) -> None:
        """Give a worker something to do."""
        self._send(name, json.dumps(order).encode())

    def go(self, name: str) -> None:
        """Let a worker pass its gate."""
        self._send(name, b"")

    def _send(self, name: str, line: bytes) -> None:
        orders = self.members[name].orders
        with suppress(BrokenPipeError):  # then its end of the events says so, and why
            orders.write(line + b"\n")
            orders.flush()

    def note(self, what: What, name: str = "", at: float | None = None, text: str = "") -> Event:
        """Add what we did ourselves to the history."""
        event = Event(boottime() if at is None else at, name, what, text=text)
        self.events.append(event)
        return event

    def listen(self, doing: str) -> Iterator[Event]:
        """Events as they come, without end: leave the loop when you have what you wait for.

        ``StoryError`` if a worker fails or ends unasked, or if nobody does anything for long.
        """
        while True:
            while self._unheard:
                event = self._unheard.popleft()
                if event.what is What.FAILED:
                    raise StoryError(f"{event.worker} failed while {doing}: {event.text}")
                yield event
            ready = self._selector.select(PATIENCE_S)
            if not ready:
                raise StoryError(f"nothing happened for {PATIENCE_S:g} s while {doing}")
            fresh = [event for key, _ in ready for event in self._receive(key.data)]
            fresh.sort(key=lambda event: event.at)
            self.events += fresh
            self._unheard += fresh

    def _receive(self, member: Member) -> list[Event]:
        data = os.read(member.events, _READ_BYTES)
        if data:
            return member.received(data)
        self._selector.unregister(member.events)
        if member.gone:
            return []
        raise StoryError(f"{member.name} (process {member.pid}) ended unasked")

    def wait(self, what: What, names: list[str], doing: str) -> list[Event]:
        """One such event of each of these workers, in the order in which they came."""
        missing = set(names)
        found: list[Event] = []
        for event in self.listen(doing):
            if event.what is what and event.worker in missing:
                missing.remove(event.worker)
                found.append(event)
                if not missing:
                    break
        return found

    # -- what befalls them -------------------------------------------------------------------

    def kill(self, name: str) -> Event:
        """Kill a worker with -9. Returns when it is dead; the time is from before the signal."""
        member = self.members[name]
        member.gone = True
        event = self.note(What.KILLED, name)
        os.kill(member.pid, signal.SIGKILL)
        os.waitpid(member.pid, 0)
        return event

    def stop(self, name: str) -> Event:
        """Freeze a worker with SIGSTOP. Returns when it stands still."""
        event = self.note(What.STOPPED, name)
        os.kill(self.members[name].pid, signal.SIGSTOP)
        os.waitpid(self.members[name].pid, os.WUNTRACED)
        return event

    def resume(self, name: str) -> Event:
        """Wake a frozen worker with SIGCONT."""
        event = self.note(What.CONTINUED, name)
        os.kill(self.members[name].pid, signal.SIGCONT)
        return event

    def close(self) -> None:
        """End all workers; none is left when this returns."""
        for member in self.members.values():
            with suppress(OSError):
                member.orders.close()
            os.close(member.events)
            if not member.gone:
                with suppress(ProcessLookupError, ChildProcessError):
                    os.kill(member.pid, signal.SIGKILL)
                    os.waitpid(member.pid, 0)
        self.members.clear()
        self._selector.close()

    def dismiss(self) -> None:
        """Let all workers go home; those who don't within some seconds are ended by ``close``."""
        for name in self.alive():
            self.members[name].orders.close()
        end = boottime() + DISMISS_S
        for name in self.alive():
            member = self.members[name]
            while not member.gone and boottime() < end:
                member.gone = os.waitpid(member.pid, os.WNOHANG)[0] != 0
                time.sleep(0.001)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
