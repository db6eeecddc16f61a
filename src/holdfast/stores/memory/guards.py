"""The verbs of refresh guards on the values in memory. Their meaning is in ``values.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ...core.guard.model import (
    Abandon,
    Begun,
    Busy,
    Entry,
    EntryRecord,
    Failing,
    Finish,
    GuardCounts,
    GuardLimits,
    GuardRecord,
    Prolong,
    Value,
    Wish,
)
from ...core.model import Gone, Held
from .port import Mailbox, Port
from .values import Values

T = TypeVar("T")


class MemoryGuards:
    """Values in memory, shared by all clients of the process."""

    limits = GuardLimits()

    def __init__(self, port: Port) -> None:
        self._port = port
        self._boxes: dict[str, Mailbox] = {}

    def _on(self, act: Callable[[Values, float], T]) -> T:
        found, pokes = self._port.values(act)
        for box in pokes:
            box.poke(1)
        return found

    async def read(self, entries: Sequence[Entry], within: float) -> list[Value | None]:
        """See ``core.guard.ports.Guards``."""
        return self._on(lambda values, now: [values.read(entry, now) for entry in entries])

    async def begin(self, wish: Wish, within: float) -> Begun:
        """See ``core.guard.ports.Guards``."""
        box = self._port.mailbox() if wish.wait else None
        begun = self._on(lambda values, now: values.begin(wish, now, box))
        if box is not None and isinstance(begun, (Busy, Failing)):
            self._boxes[wish.id] = box
        return begun

    async def finish(self, finish: Finish, within: float) -> bool:
        """See ``core.guard.ports.Guards``."""
        return self._on(lambda values, now: values.finish(finish, now))

    async def abandon(self, abandon: Abandon, within: float) -> bool:
        """See ``core.guard.ports.Guards``."""
        return self._on(lambda values, now: values.abandon(abandon, now))

    async def prolong(
        self, prolongs: Sequence[Prolong], within: float
    ) -> list[Held | Gone | Exception]:
        """See ``core.guard.ports.Guards``."""
        return self._on(lambda values, now: [values.prolong(one, now) for one in prolongs])

    async def invalidate(self, entries: Sequence[Entry], within: float) -> list[bool]:
        """See ``core.guard.ports.Guards``."""
        return self._on(lambda values, now: [values.invalidate(entry, now) for entry in entries])

    async def wait(self, wish: Wish, seconds: float) -> bool:
        """See ``core.guard.ports.Guards``."""
        box = self._boxes.get(wish.id)
        return box is not None and await box.wait(seconds) is not None

    def unlisten(self, wish: Wish) -> None:
        """See ``core.guard.ports.Guards``."""
        if self._boxes.pop(wish.id, None) is not None:
            self._on(lambda values, now: values.unlisten(wish, now))

    async def look(self, entry: Entry, within: float) -> EntryRecord:
        """See ``core.guard.ports.Guards``."""
        return self._on(lambda values, now: values.look(entry, now))

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[GuardRecord]:
        """See ``core.guard.ports.Guards``."""
        return self._on(lambda values, _: values.survey(prefix, exact))

    async def tally(self, guard: str, tally: GuardCounts, within: float) -> None:
        """See ``core.guard.ports.Guards``."""
        self._on(lambda values, _: values.tally(guard, tally))

    def forget(self) -> None:
        """Drop the mailboxes: the client is closed, or this is the child of a fork."""
        self._boxes = {}
