"""The six verbs on a line of claims in memory. Their meaning is in ``line.py``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from ...core.model import (
    Capabilities,
    Change,
    Claim,
    Granted,
    Held,
    Joined,
    Leave,
    LineRecord,
    Mismatch,
    Renewal,
    Standing,
    Waiting,
)
from . import CAPABILITIES
from .guards import MemoryGuards
from .line import Lines, Poke
from .port import Mailbox, Port
from .queues import MemoryQueues


class MemoryStore:
    """Lines in memory, shared by all clients of the process."""

    capabilities: Capabilities = CAPABILITIES
    batch_max = 1000
    watch_every = lease_max = math.inf

    def __init__(self, port: Port) -> None:
        self._port = port
        self._boxes: dict[str, Mailbox] = {}
        self.queues = MemoryQueues(port)
        self.guards = MemoryGuards(port)
        self.patience = port.call(lambda lines, _: lines.patience)
        self.label = f"memory://{port.space}"

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """See ``core.ports.Store``."""
        box = None
        if wait:
            box = self._boxes[claim.id] = self._port.mailbox()
        answer, pokes = self._port.call(lambda lines, now: lines.join(claim, wait, now, box))
        if not isinstance(answer, Waiting):
            self._boxes.pop(claim.id, None)
        _send(pokes)
        return answer

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """See ``core.ports.Store``."""
        answers: list[Standing | Exception] = []
        for renewal in renewals:
            answer, pokes = self._port.call(partial(_renew, renewal))
            _send(pokes)
            answers.append(answer)
        return answers

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """See ``core.ports.Store``."""
        box = self._boxes.get(claim.id)
        answer, pokes = self._port.call(lambda lines, now: lines.turn(claim, now, box))
        _send(pokes)
        return answer

    async def change(self, change: Change, within: float) -> Standing:
        """See ``core.ports.Store``."""
        answer, pokes = self._port.call(lambda lines, now: lines.change(change, now))
        _send(pokes)
        return answer

    async def leave(self, leave: Leave, within: float) -> bool:
        """See ``core.ports.Store``."""
        there, pokes = self._port.call(lambda lines, now: lines.leave(leave, now))
        _send(pokes)
        return there

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        """See ``core.ports.Store``."""
        there, pokes = self._port.call(lambda lines, now: lines.break_(name, ticket, now))
        _send(pokes)
        return there

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """See ``core.ports.Store``."""
        answer, pokes = self._port.call(lambda lines, now: lines.join_free(claims, now))
        _send(pokes)
        return answer

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """See ``core.ports.Store``."""
        return [await self.leave(leave, within) for leave in leaves]

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """See ``core.ports.Store``."""
        box = self._boxes.get(claim.id)
        if box is None:
            box = self._boxes[claim.id] = self._port.mailbox()
        fence = await box.wait(seconds)
        return None if fence is None else Granted(fence)

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """See ``core.ports.Store``."""
        return self._port.call(lambda lines, now: lines.inspect(prefix, now, exact))

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """See ``core.ports.Store``."""
        answer, pokes = self._port.call(lambda lines, now: lines.resize(name, capacity, now))
        _send(pokes)
        return answer

    async def changed(self, within: float) -> bool:
        """Return False: acknowledged data is lost only when the process ends; see the contract."""
        return False

    def unlisten(self, claim: Claim) -> None:
        """See ``core.ports.Store``."""
        self._boxes.pop(claim.id, None)

    async def close(self) -> None:
        """Drop the mailboxes; there is nothing else to close."""
        self._boxes.clear()
        self.queues.forget()
        self.guards.forget()

    def forked(self) -> None:
        """In the child of a fork: start with no data, because the data is the parent's."""
        self._boxes = {}
        self.queues.forget()
        self.guards.forget()
        self._port.forked()


def _renew(renewal: Renewal, lines: Lines, now: float) -> tuple[Standing, list[Poke]]:
    return lines.renew(renewal, now)


def _send(pokes: list[Poke]) -> None:
    for box, _, fence in pokes:
        box.poke(fence)
