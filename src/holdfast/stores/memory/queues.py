"""The verbs of serial queues on the jobs in memory. Their meaning is in ``jobs.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ...core.model import Gone, Held
from ...core.queue.model import (
    Extend,
    JobRecord,
    JobState,
    Put,
    QueueLimits,
    QueueRecord,
    Settle,
    Take,
    Taken,
)
from . import jobs_look
from .jobs import Queue
from .port import Mailbox, Port

T = TypeVar("T")


class MemoryQueues:
    """Queues in memory, shared by all clients of the process."""

    limits = QueueLimits()

    def __init__(self, port: Port) -> None:
        self._port = port
        self._boxes: dict[str, Mailbox] = {}

    def _on(self, name: str, act: Callable[[Queue, float], T]) -> T:
        found, pokes = self._port.queue(name, act)
        for box in pokes:
            box.poke(1)
        return found

    async def put(self, put: Put, within: float) -> list[bool]:
        """See ``core.queue.ports.Queues``."""
        return self._on(put.queue, lambda queue, now: queue.put(put, now))

    async def take(self, take: Take, within: float) -> Taken:
        """See ``core.queue.ports.Queues``."""
        box = self._boxes[take.id] = self._port.mailbox()
        taken = self._on(take.queue, lambda queue, now: queue.take(take, now, box))
        if taken.deliveries or not take.wait:
            self._boxes.pop(take.id, None)
        return taken

    async def give_back(self, take: Take, within: float) -> int:
        """See ``core.queue.ports.Queues``."""
        return self._on(take.queue, lambda queue, now: queue.give_back(take, now))

    async def settle(self, settles: Sequence[Settle], within: float) -> list[bool | Exception]:
        """See ``core.queue.ports.Queues``."""
        return [self._on(one.queue, partial(_settle, one)) for one in settles]

    async def settle_and_take(
        self, settles: Sequence[Settle], take: Take, within: float
    ) -> tuple[list[bool | Exception], Taken]:
        """See ``core.queue.ports.Onward``."""
        return await self.settle(settles, within), await self.take(take, within)

    async def extend(
        self, extends: Sequence[Extend], within: float
    ) -> list[Held | Gone | Exception]:
        """See ``core.queue.ports.Queues``."""
        return [self._on(one.queue, partial(_extend, one)) for one in extends]

    async def wait(self, take: Take, seconds: float) -> bool:
        """See ``core.queue.ports.Queues``."""
        box = self._boxes.get(take.id)
        if box is None:
            box = self._boxes[take.id] = self._port.mailbox()
        return await box.wait(seconds) is not None

    def unlisten(self, take: Take) -> None:
        """See ``core.queue.ports.Queues``."""
        if self._boxes.pop(take.id, None) is not None:
            self._on(take.queue, lambda queue, _: queue.idle.pop(take.id, None))

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[QueueRecord]:
        """See ``core.queue.ports.Queues``."""
        names = [name for name in sorted(self._port.queue_names()) if name.startswith(prefix)]
        return [
            self._on(name, partial(jobs_look.survey, name))
            for name in names
            if not exact or name == prefix
        ]

    async def jobs(
        self, queue: str, state: JobState | None, group: str | None, most: int, within: float
    ) -> list[JobRecord]:
        """See ``core.queue.ports.Queues``."""
        found = [
            one
            for one in self._on(queue, jobs_look.records)
            if (state is None or one.state is state) and (group is None or one.group == group)
        ]
        return found[:most]

    async def letters(self, queue: str, within: float) -> list[str]:
        """See ``core.queue.ports.Queues``."""
        return self._on(queue, jobs_look.letters)

    async def revive(self, queue: str, ids: Sequence[str] | None, within: float) -> int:
        """See ``core.queue.ports.Queues``."""
        return self._on(queue, lambda one, now: jobs_look.revive(one, ids, now))

    async def purge(
        self,
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        within: float,
    ) -> int:
        """See ``core.queue.ports.Queues``."""
        return self._on(queue, lambda one, now: jobs_look.purge(one, state, ids, most, now))

    def forget(self) -> None:
        """Drop the mailboxes: the client is closed, or this is the child of a fork."""
        self._boxes = {}


def _settle(settle: Settle, queue: Queue, now: float) -> bool:
    return queue.settle(settle, now)


def _extend(extend: Extend, queue: Queue, now: float) -> Held | Gone:
    return queue.extend(extend, now)
