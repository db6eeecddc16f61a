"""The verbs of locks on MySQL and MariaDB: their statements, and what the replies mean.

This module uses no socket. A port sends a statement to the server, for threads (``blocking/``) or
for one event loop (``aio/``).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

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
from ...core.policy import PATIENCE_S
from ...errors import HoldfastError
from . import replies
from .guards import MysqlGuards
from .port import LOOK_FIRST_S, Port, look_until
from .queues import MysqlQueues
from .statements import IDLE_S, SWEEP_ROWS, LockCalls, by_name

#: The capabilities of this store.
CAPABILITIES = Capabilities(store="mysql", wakes_waiters=False, queues=True, guards=True)
#: Maximum number of claims in one statement: the statement locks the rows of all their names.
BATCH_MAX = 64
#: One leave in this many sweeps unused names: a leave whose ticket is a multiple of this number.
#: Tickets are microseconds, so this is as good as a random choice.
SWEEP_EVERY = 128
#: Replaces `SWEEP_EVERY` after a sweep that removed most of the names that it checked.
SWEEP_OFTEN = 8


class MysqlStore:
    """See :class:`holdfast.core.ports.Store`."""

    capabilities = CAPABILITIES
    batch_max = BATCH_MAX
    patience = PATIENCE_S
    watch_every = lease_max = math.inf

    def __init__(self, port: Port, prefix: str) -> None:
        self._port = port
        self._statements = LockCalls(prefix, self.patience)
        self.label = port.label
        self.queues = MysqlQueues(port, prefix)
        self.guards = MysqlGuards(port, prefix)
        #: True if the last sweep removed most of the names that it checked.
        self._burst = False
        #: For each waiting claim: the pause before its next look, and its position.
        self._pauses: dict[str, float] = {}
        self._places: dict[str, int] = {}

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line, atomically; see the contract."""
        rows = await self._port.call(self._statements.join(claim, wait), within)
        answer = replies.joined(rows)
        if isinstance(answer, Waiting):
            self._pauses[claim.id], self._places[claim.id] = LOOK_FIRST_S, answer.position
        return answer

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """Renew held claims; see the contract.

        Plain renewals share a statement. A claim that gets a smaller weight needs a separate
        statement, and so does a claim that the shared statement didn't renew.
        """
        until = self._port.now() + within
        plain = [at for at, one in enumerate(renewals) if not one.weight]
        found: dict[int, Standing | Exception] = {}
        if len(plain) > 1:
            found = await self._renew_together(renewals, plain, within)
        for at, renewal in enumerate(renewals):
            if at not in found:
                found[at] = await self._renew_one(renewal, until - self._port.now())
        return [found[at] for at in range(len(renewals))]

    async def _renew_together(
        self, renewals: Sequence[Renewal], places: list[int], within: float
    ) -> dict[int, Standing | Exception]:
        """Renew the claims at these places; return the answers to the renewed ones."""
        order = [places[at] for at in by_name([renewals[at].claim.spec.name for at in places])]
        rows = await self._port.call(self._statements.renew(renewals[at] for at in order), within)
        tickets = replies.numbers(rows) or []
        return {
            at: Held(ticket, renewals[at].ttl)
            for at, ticket in zip(order, tickets, strict=True)
            if ticket
        }

    async def _renew_one(self, renewal: Renewal, within: float) -> Standing | Exception:
        try:
            return replies.stood(await self._port.call(self._statements.renew_one(renewal), within))
        except HoldfastError as wrong:
            return wrong

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """Ask for a claim that waits; see the contract."""
        answer = replies.stood(await self._port.call(self._statements.turn(claim), within))
        if isinstance(answer, Waiting):
            if answer.position == 1 < self._places.get(claim.id, 0):  # this claim is next
                self._pauses[claim.id] = LOOK_FIRST_S
            self._places[claim.id] = answer.position
        return answer

    async def change(self, change: Change, within: float) -> Standing:
        """Renew a held claim, and change its id or its owner; see the contract."""
        return replies.stood(await self._port.call(self._statements.change(change), within))

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release, and grant the waiters that now fit; see the contract."""
        return await self._end(self._statements.leave(leave), leave.ticket, within)

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        """End a claim by its ticket, and grant the waiters that now fit; see the contract."""
        return await self._end(self._statements.break_(name, ticket), ticket, within)

    async def _end(self, sql: str, ticket: int, within: float) -> bool:
        """End a claim; now and then, sweep unused names as well."""
        until = self._port.now() + within
        rows = await self._port.call(sql, within)
        if ticket and ticket % (SWEEP_OFTEN if self._burst else SWEEP_EVERY) == 0:
            with contextlib.suppress(HoldfastError):  # the next sweep can do it
                sql = self._statements.sweep(SWEEP_ROWS, IDLE_S)
                swept = await self._port.call(sql, until - self._port.now())
                self._burst = int(replies.said(swept)) > SWEEP_ROWS // 2
        return bool(replies.said(rows))

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Enter several lines that are empty, in one transaction; see the contract."""
        order = by_name([claim.spec.name for claim in claims])
        sql = self._statements.join_free(claims[at] for at in order)
        tickets = replies.numbers(await self._port.call(sql, within))
        if tickets is None:
            return None
        by_place = dict(zip(order, tickets, strict=True))
        return [Held(by_place[at], claim.spec.ttl) for at, claim in enumerate(claims)]

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Withdraw or release several claims; see the contract."""
        until = self._port.now() + within
        plain = [at for at, one in enumerate(leaves) if not one.suspect and one.after <= 0]
        order = [plain[at] for at in by_name([leaves[at].name for at in plain])]
        found: dict[int, bool | Exception] = {}
        if order:
            sql = self._statements.leave_all(leaves[at] for at in order)
            answers = replies.numbers(await self._port.call(sql, within)) or []
            pairs = zip(order, answers, strict=True)
            found.update((at, bool(one)) for at, one in pairs if one in (0, 1))
        for at, leave in enumerate(leaves):
            if at not in found:
                try:
                    found[at] = await self.leave(leave, until - self._port.now())
                except HoldfastError as wrong:
                    found[at] = wrong
        return [found[at] for at in range(len(leaves))]

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Look repeatedly until the claim is held or the time is up; see the contract.

        There are no wake-ups: the release of a claim grants the next claim, and a look reads this
        grant. A look neither locks nor writes anything.
        """
        sql = self._statements.peek(claim.spec.name, waiting.ticket)
        looks = self._port, sql, self._pauses, claim.id
        rows = await look_until(*looks, lambda rows: not rows or bool(rows[0][0]), seconds)
        return Granted(waiting.ticket) if rows else None

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """Return the lines whose name begins with the prefix; see the contract."""
        return replies.looked(
            await self._port.call(self._statements.inspect(prefix, exact), within)
        )

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change the capacity of a line that isn't empty; see the contract."""
        return replies.resized(
            await self._port.call(self._statements.resize(name, capacity), within)
        )

    async def changed(self, within: float) -> bool:
        """Return False: a server that writes each commit to disk loses nothing acknowledged."""
        return False

    def unlisten(self, claim: Claim) -> None:
        """Forget a claim that no longer waits; see the contract."""
        self._pauses.pop(claim.id, None)
        self._places.pop(claim.id, None)

    async def close(self) -> None:
        """End the connections."""
        await self._port.close()

    def forked(self) -> None:
        """Begin without state in the child of a fork; see the contract."""
        self._pauses, self._places = {}, {}
        self.queues.forget()
        self.guards.forget()
        self._port.forked()
