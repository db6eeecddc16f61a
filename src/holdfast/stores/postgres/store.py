"""The verbs of locks on PostgreSQL: each sends a call and translates the reply.

This module uses no socket. A port sends a ``Call`` (``calls.py``) to the server, for threads
(``blocking/``) or for one event loop (``aio/``).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Sequence
from typing import Protocol

from ...core.model import (
    Capabilities,
    Change,
    Claim,
    Gone,
    Granted,
    Held,
    Joined,
    Leave,
    LineRecord,
    Loss,
    Mismatch,
    Renewal,
    Standing,
    Waiting,
)
from ...core.policy import PATIENCE_S
from ...errors import HoldfastError, StoreUnavailable
from . import replies
from .calls import BATCH_MAX, Call, LockCalls, span
from .config import Settings
from .guards import PostgresGuards
from .queues import PostgresQueues
from .replies import Rows

log = logging.getLogger("holdfast")

#: The capabilities of this store.
CAPABILITIES = Capabilities(store="postgres", queues=True, guards=True)
#: Maximum seconds to send the address of a waiter that joined without an address. If that fails, a
#: later request sends the address.
ADDRESS_S = 2.0
#: Number of checks per grace period whether the server may have lost data.
LOOKS = 3


class Port(Protocol):
    """Sends calls to the server, and receives wake-ups for waiters.

    A call returns or raises within ``within`` seconds. If a call is interrupted (Ctrl-C, a
    cancellation), no other call ever reads its reply.
    """

    #: True if a pooler in between prevents wake-ups. Known from the first connection on.
    deaf: bool

    def now(self) -> float:
        """Return the seconds of a clock that only goes forward."""
        ...

    def ask(self, call: Call, within: float) -> Awaitable[Rows]:
        """Return the rows of the reply. An error of the server is raised as its `complaint`."""
        ...

    def seat(self, claim_id: str) -> str:
        """Prepare to wake a claim. Return the address for its wake-ups; '' if it can't be woken."""
        ...

    async def listen(self, within: float) -> None:
        """Start to receive wake-ups. If that isn't possible, raise or set ``deaf``."""
        ...

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until the wake-up for this claim and ticket arrives, at most ``seconds``."""
        ...

    def unlisten(self, claim_id: str) -> None:
        """Forget a claim that no longer waits. Never fails, never suspends."""
        ...

    async def close(self) -> None:
        """End the connections."""
        ...

    def forked(self) -> None:
        """Forget the parent's connections, in the child of a fork; connect again when needed."""
        ...


class PostgresStore:
    """See :class:`holdfast.core.ports.Store`."""

    batch_max = BATCH_MAX
    patience = PATIENCE_S

    def __init__(self, port: Port, settings: Settings) -> None:
        self._port = port
        #: `_note_deaf` removes the wake-ups from the capabilities if a pooler prevents them.
        self.capabilities: Capabilities = CAPABILITIES
        self._calls = LockCalls(settings, self.patience)
        self.queues = PostgresQueues(port, settings)
        self.guards = PostgresGuards(port, settings)
        self.label = settings.label
        self._window = settings.window
        self._recovers = settings.recovery != "off"
        self.watch_every = self._window / LOOKS if self._recovers else math.inf
        self.lease_max = self._window if settings.recovery == "strict" else math.inf
        #: The generation of the server at the last check; empty before the first check.
        self._mark = b""

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line, atomically; see the contract."""
        if not wait:
            rows = await self._port.ask(self._calls.join(claim, False, ""), within)
            return replies.joined(rows, self.label)
        address = self._port.seat(claim.id)
        rows = await self._port.ask(self._calls.join(claim, True, address), within)
        self._note_deaf()
        answer = replies.joined(rows, self.label)
        if isinstance(answer, Waiting) and not address and not self._port.deaf:
            return await self._introduce(claim, answer, within)
        return answer

    async def _introduce(self, claim: Claim, waiting: Waiting, within: float) -> Joined:
        """Send the address of a waiter to the server; if that fails, the waiter asks again soon."""
        try:
            return await self.turn(claim, waiting.ticket, min(within, ADDRESS_S))
        except StoreUnavailable:
            return waiting

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """Ask for a claim that waits; see the contract.

        If this client doesn't receive wake-ups yet, start to listen first.
        """
        address = self._port.seat(claim.id)
        if not address and not self._port.deaf:
            try:
                await self._port.listen(within / 2)
            except StoreUnavailable as wrong:
                log.debug("%s: no waiter can be woken now: %s", self.label, wrong)
            self._note_deaf()
            address = self._port.seat(claim.id)
            within /= 2
        rows = await self._port.ask(self._calls.turn(claim, address), within)
        return replies.standing(rows, self.label)

    def _note_deaf(self) -> None:
        """Remove the wake-ups from the capabilities if no waiter can be woken."""
        if self._port.deaf:
            self.capabilities = CAPABILITIES._replace(wakes_waiters=False, wakeup_grants=False)

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """Renew held claims; see the contract.

        Plain renewals share a call. A claim that gets a smaller weight needs a separate call, and
        so does a claim that the shared call didn't find among the holders.
        """
        plain = [at for at, one in enumerate(renewals) if not one.weight]
        found: dict[int, Standing | Exception] = {}
        if plain:
            asked = [renewals[at] for at in plain]
            rows = await self._port.ask(self._calls.renew(asked), within)
            answers = replies.renewed(rows, asked, self.label)
            found = {at: one for at, one in zip(plain, answers, strict=True) if one is not None}
        for at in range(len(renewals)):
            if at not in found:
                found[at] = await self._renew_one(renewals[at], within)
        return [found[at] for at in range(len(renewals))]

    async def _renew_one(self, renewal: Renewal, within: float) -> Standing | Exception:
        """Renew one claim in a separate call; restore it if the server has forgotten it."""
        try:
            rows = await self._port.ask(self._calls.renew_one(renewal), within)
            answer = replies.standing(rows, self.label)
            if not self._recovers or answer != Gone(Loss.EXPIRED):
                return answer
            weight = renewal.weight or renewal.claim.spec.weight
            rows = await self._port.ask(self._calls.reclaim(renewal, weight), within)
            answer = replies.standing(rows, self.label)
        except HoldfastError as wrong:
            return wrong
        if isinstance(answer, Held):
            name = renewal.claim.spec.name
            log.warning("%s had lost a hold on %r; it is restored", self.label, name)
        return answer

    async def change(self, change: Change, within: float) -> Standing:
        """Renew a held claim, and change its id or its owner; see the contract."""
        rows = await self._port.ask(self._calls.change(change), within)
        return replies.standing(rows, self.label)

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release, and wake the waiters that now fit; see the contract."""
        call = self._calls.undo if leave.suspect else self._calls.leave
        rows = await self._port.ask(call(leave), within)
        return replies.left(rows, 1, self.label)[0]

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        """End a claim by its ticket, and wake the waiters that now fit; see the contract."""
        rows = await self._port.ask(self._calls.break_(name, ticket), within)
        return replies.left(rows, 1, self.label)[0]

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Enter several empty lines in one step; see the contract."""
        order = sorted(claims, key=lambda claim: claim.spec.name.encode())
        rows = await self._port.ask(self._calls.join_free(order), within)
        held = replies.let_in(rows, order, self.label)
        if held is None:
            return None
        found = {claim.id: one for claim, one in zip(order, held, strict=True)}
        return [found[claim.id] for claim in claims]

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Withdraw or release many claims in one transaction; see the contract."""
        if not all(leave.after <= 0 for leave in leaves):
            return [await self.leave(leave, within) for leave in leaves]
        order = sorted(range(len(leaves)), key=lambda at: leaves[at].name.encode())
        rows = await self._port.ask(self._calls.leave_all([leaves[at] for at in order]), within)
        there = replies.left(rows, len(leaves), self.label)
        found = dict(zip(order, there, strict=True))
        return [found[at] for at in range(len(leaves))]

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until woken; see the contract."""
        return await self._port.wait(claim.id, waiting.ticket, seconds)

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """Return the lines, all read at the same moment; see the contract."""
        call = self._calls.inspect(*span(prefix, exact))
        return replies.looked_at(await self._port.ask(call, within))

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change a capacity; see the contract."""
        rows = await self._port.ask(self._calls.resize(name, capacity), within)
        return replies.resized(rows, self.label)

    async def changed(self, within: float) -> bool:
        """True if the server crashed or was replaced since the last check; see the contract."""
        mark, left = replies.words(await self._port.ask(self._calls.look(), within), self.label)
        before, self._mark = self._mark, mark
        return before != mark and (before != b"" or left != b"0")

    def unlisten(self, claim: Claim) -> None:
        """See the contract."""
        self._port.unlisten(claim.id)

    async def close(self) -> None:
        """See the contract."""
        await self._port.close()

    def forked(self) -> None:
        """See the contract."""
        self._mark = b""
        self.queues.forget()
        self.guards.forget()
        self._port.forked()
