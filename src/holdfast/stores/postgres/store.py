"""The five verbs on PostgreSQL: which function each of them calls, and what its answer means.

Nothing here knows a socket. A port brings a ``Call`` (``calls.py``) to the server, for threads
(``blocking/``) or for one event loop (``aio/``).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Sequence
from typing import Protocol

from ...core.model import (
    Capabilities,
    Claim,
    Gone,
    Granted,
    Held,
    Joined,
    Keep,
    Leave,
    LineRecord,
    Loss,
    Mismatch,
    Standing,
    Waiting,
)
from ...core.policy import PATIENCE_S
from ...errors import HoldfastError, StoreUnavailable
from . import replies
from .calls import BATCH_MAX, Call, Calls
from .config import Settings
from .guards import PostgresGuards
from .queues import PostgresQueues
from .replies import Rows

log = logging.getLogger("holdfast")

#: What this store can do.
CAPABILITIES = Capabilities(store="postgres", queues=True, guards=True)
#: Seconds that a claim may take to say where it waits, if it joined before it could be woken; else
#: it says so later.
ADDRESS_S = 2.0
#: Number of times in a window that holders look whether the server may have lost something.
LOOKS = 3


class Port(Protocol):
    """How calls reach the server, and how a waiter hears that it was served.

    A call ends within ``within`` seconds, or raises. What was interrupted (Ctrl-C, a
    cancellation) never leaves its answer to be read by another.
    """

    #: Can nobody be woken here, as there is a pooler in between? Known with the first connection.
    deaf: bool

    def now(self) -> float:
        """Seconds by a clock that only goes forward."""
        ...

    def ask(self, call: Call, within: float) -> Awaitable[Rows]:
        """The rows of the answer; raises the complaint for an error of the server's."""
        ...

    def seat(self, claim_id: str) -> str:
        """A place for a claim that may have to wait, and its address; '' if it can't be woken."""
        ...

    async def listen(self, within: float) -> None:
        """See to it that wake-ups arrive from now on; raises, or turns ``deaf``, if they can't."""
        ...

    async def wait(self, claim_id: str, ticket: int, seconds: float) -> Granted | None:
        """Sleep until the wake-up for this claim and ticket is here, at most ``seconds``."""
        ...

    def unlisten(self, claim_id: str) -> None:
        """The claim waits no more. Never fails, never suspends."""
        ...

    async def close(self) -> None:
        """End the connections."""
        ...

    def forked(self) -> None:
        """We are the child of a fork: forget the parent's connections, and start lazily."""
        ...


class PostgresStore:
    """See :class:`holdfast.core.ports.Store`."""

    keep_batch = BATCH_MAX
    patience = PATIENCE_S

    def __init__(self, port: Port, settings: Settings) -> None:
        self._port = port
        #: No push behind a pooler, once one was found.
        self.capabilities: Capabilities = CAPABILITIES
        self._calls = Calls(settings, self.patience)
        self.queues = PostgresQueues(port, settings)
        self.guards = PostgresGuards(port, settings)
        self.label = settings.label
        self._window = settings.window
        self._guarded = settings.guard != "off"
        self.watch_every = self._window / LOOKS if self._guarded else math.inf
        self.lease_max = self._window if settings.guard == "strict" else math.inf
        #: Which life of the server was seen last.
        self._mark = b""
        #: Claims that wait here.
        self._waiting: set[str] = set()

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line, atomically; see the contract."""
        if not wait:
            rows = await self._port.ask(self._calls.join(claim, False), within)
            return replies.joined(rows, self.label)
        address = self._port.seat(claim.id)
        rows = await self._port.ask(self._calls.join(claim, True, address), within)
        self._note_deaf()
        answer = replies.joined(rows, self.label)
        if isinstance(answer, Waiting):
            self._waiting.add(claim.id)
            if not address and not self._port.deaf:
                return await self._introduce(claim, answer, within)
        return answer

    async def _introduce(self, claim: Claim, waiting: Waiting, within: float) -> Joined:
        """Let the line know where the claim can be woken; if that fails it asks again soon."""
        keep = Keep(claim, waiting.ticket, claim.spec.ttl)
        try:
            return await self._stand(keep, min(within, ADDRESS_S))
        except StoreUnavailable:
            return waiting

    async def _stand(self, keep: Keep, within: float) -> Standing:
        """Keep a claim that waits; where it can't be woken yet, see to that first."""
        cid = keep.claim.id
        address = self._port.seat(cid)
        if not address and not self._port.deaf:
            try:
                await self._port.listen(within / 2)
            except StoreUnavailable as wrong:
                log.debug("%s: nobody can be woken now: %s", self.label, wrong)
            self._note_deaf()
            address = self._port.seat(cid)
            within /= 2
        rows = await self._port.ask(self._calls.stand(keep, address), within)
        return replies.standing(rows, self.label)

    def _note_deaf(self) -> None:
        """Say so where nobody can be woken, as has turned out by now."""
        if self._port.deaf:
            self.capabilities = CAPABILITIES._replace(push=False, push_grants=False)

    async def keep(self, keeps: Sequence[Keep], within: float) -> list[Standing | Exception]:
        """Renew a batch; see the contract.

        Plain renewals of what is held go together. What waits, or is to be changed, goes by itself.
        """
        if len(keeps) == 1 and keeps[0].claim.id in self._waiting:
            return [await self._stand(keeps[0], within)]
        plain = [at for at, one in enumerate(keeps) if not (one.weight or one.new_id or one.detach)]
        found: dict[int, Standing | Exception] = {}
        if plain:
            asked = [keeps[at] for at in plain]
            rows = await self._port.ask(self._calls.keep(asked), within)
            kept = replies.kept(rows, asked, self.label)
            found = {at: one for at, one in zip(plain, kept, strict=True) if one is not None}
        for at in range(len(keeps)):
            if at not in found:
                found[at] = await self._alone(keeps[at], within)
        return [found[at] for at in range(len(keeps))]

    async def _alone(self, keep: Keep, within: float) -> Standing | Exception:
        """One that was not renewed with the others; put back if the server has forgotten it."""
        try:
            rows = await self._port.ask(self._calls.stand(keep), within)
            answer = replies.standing(rows, self.label)
            if isinstance(answer, Held) or not self._may_be_back(keep, answer):
                return answer
            rows = await self._port.ask(self._calls.reclaim(keep), within)
            again = replies.standing(rows, self.label)
        except HoldfastError as wrong:
            return wrong
        if isinstance(again, Held):
            log.warning(
                "%s had forgotten a hold on %r; it is back", self.label, keep.claim.spec.name
            )
            return again
        return answer if isinstance(answer, Gone) else again

    def _may_be_back(self, keep: Keep, answer: Standing) -> bool:
        """Is it one that we held, but the server says otherwise, perhaps because it forgot?"""
        if not self._guarded or keep.new_id or keep.claim.id in self._waiting:
            return False
        if keep.detach:  # asked by a token, which may be over since long, or of another store
            return False
        over = Loss.BROKEN, Loss.RELEASED
        return not (isinstance(answer, Gone) and answer.reason in over)

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release, and wake who now fits; see the contract."""
        rows = await self._port.ask(self._calls.leave(leave), within)
        return replies.left(rows, 1, self.label)[0]

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Enter several empty lines at once; see the contract."""
        order = sorted(claims, key=lambda claim: claim.spec.name.encode())
        rows = await self._port.ask(self._calls.join_free(order), within)
        held = replies.let_in(rows, order, self.label)
        if held is None:
            return None
        found = {claim.id: one for claim, one in zip(order, held, strict=True)}
        return [found[claim.id] for claim in claims]

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Many leaves in one transaction; see the contract."""
        if not all(leave.id and leave.after <= 0 for leave in leaves):
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
        """The lines as they stand, at one moment; see the contract."""
        return replies.looked_at(await self._port.ask(self._calls.inspect(prefix, exact), within))

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change a capacity; see the contract."""
        rows = await self._port.ask(self._calls.resize(name, capacity), within)
        return replies.resized(rows, self.label)

    async def changed(self, within: float) -> bool:
        """Has the server crashed or been replaced since the last look? See the contract."""
        mark, left = replies.words(await self._port.ask(self._calls.look(), within), self.label)
        before, self._mark = self._mark, mark
        return before != mark and (before != b"" or left != b"0")

    def unlisten(self, claim: Claim) -> None:
        """See the contract."""
        self._waiting.discard(claim.id)
        self._port.unlisten(claim.id)

    async def close(self) -> None:
        """See the contract."""
        await self._port.close()

    def forked(self) -> None:
        """See the contract."""
        self._waiting = set()
        self._mark = b""
        self.queues.forget()
        self.guards.forget()
        self._port.forked()
