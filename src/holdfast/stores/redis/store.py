"""The verbs of locks on Redis: the script of each, and the meaning of its answer.

This module uses no socket. A request is a ``Call`` (``scripts.py``): a script with its keys and
arguments, packed into the bytes to send. A port sends it to the server, for threads
(``blocking/``) or for one event loop (``aio/``).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import partial

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
from ...errors import HoldfastError, StoreUnavailable
from . import replies
from .keys import name_of, pattern_of
from .port import Port, Reply
from .queue_cluster import queues_over
from .recovery import LOOKS, Verdict
from .replies import whole as _whole
from .scripts import BATCH_MAX, Call, Requests
from .together import Together
from .values import RedisGuards

log = logging.getLogger("holdfast")

#: The capabilities of this store.
CAPABILITIES = Capabilities(store="redis", queues=True, guards=True)
#: Maximum seconds to report the address of a claim that joined without an address; if this report
#: fails, a later request reports the address.
ADDRESS_S = 0.2
#: The reasons after which a hold is never restored.
_ENDED = (Loss.BROKEN, Loss.RELEASED)
#: Maximum number of lines that one round trip reads.
_LOOK_MAX = 50


class RedisStore:
    """See :class:`holdfast.core.ports.Store`."""

    batch_max = BATCH_MAX

    def __init__(self, port: Port, prefix: str) -> None:
        self._port = port
        recovery = self._recovery = port.recovery
        self.capabilities = CAPABILITIES._replace(wakeup_grants=not port.replicas)
        self.watch_every = recovery.window / LOOKS if recovery.on else math.inf
        self.lease_max = recovery.window if recovery.mode == "strict" else math.inf
        self._latest = recovery.latest
        #: The last verdict of recovery.
        self._verdict = Verdict(b"")
        self._requests = Requests(prefix, port.patience)
        self._together = Together(port, self._requests)
        self.queues = queues_over(port, prefix)
        self.guards = RedisGuards(port, prefix)
        self._prefix = prefix
        self.patience = port.patience
        self.label = port.label

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Enter the line, atomically; see the contract."""
        requests = self._requests
        if not wait:
            reply = await self._port.ask(requests.join(claim, False), within)
            if reply.__class__ is int:
                self._note(reply)
                return Held(reply, claim.spec.ttl)
            return replies.joined(reply, claim, self.label)
        reply = await self._port.enter(claim.id, partial(requests.join, claim, True), within)
        if reply.__class__ is int:
            self._note(reply)
            return Held(reply, claim.spec.ttl)
        answer = replies.joined(reply, claim, self.label)
        if isinstance(answer, Waiting) and not self._port.addressed(claim.id):
            return await self._introduce(claim, answer, within)
        return answer

    async def _introduce(self, claim: Claim, waiting: Waiting, within: float) -> Joined:
        """Report the address of the claim to its line; if that fails, the claim asks again soon."""
        try:
            return await self.turn(claim, waiting.ticket, min(within, ADDRESS_S))
        except StoreUnavailable:
            return waiting

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """Ask for a claim that waits, on the connection on which it waits; see the contract."""
        call_of = partial(self._requests.turn, claim)
        return self._stood(await self._port.stand(claim.id, call_of, within), claim.spec.ttl)

    async def change(self, change: Change, within: float) -> Standing:
        """Renew a held claim, and change its id or its owner; see the contract."""
        reply = await self._port.ask(self._requests.change(change), within)
        return self._stood(reply, change.ttl)

    def _stood(self, reply: Reply, ttl: float) -> Standing:
        standing = replies.stood(reply, ttl, self.label)
        if isinstance(standing, Held):
            self._note(standing.fence)
        return standing

    def _note(self, fence: int) -> None:
        """Record a fence that this client got: no server may give a smaller fence after it."""
        if fence > self._latest.fence:
            self._latest.fence = fence

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """Renew a batch; see the contract.

        Plain renewals go together. A renewal that needs more than that goes in a separate call.
        """
        found = await self._renew(renewals, within)
        if self._recovery.on:
            lost = [
                at
                for at, one in enumerate(found)
                if isinstance(one, Gone) and one.reason not in _ENDED
            ]
            if lost:
                await self._reclaim(renewals, lost, found, within)
        return found

    async def _renew(
        self, renewals: Sequence[Renewal], within: float
    ) -> list[Standing | Exception]:
        plain = [at for at, renewal in enumerate(renewals) if not renewal.weight]
        batches, unfit = self._requests.batches(renewals, plain, self._port.clustered)
        found: dict[int, Standing | Exception] = dict(unfit)
        said = await self._port.ask_many([batch.call for batch in batches], within)
        for batch, reply in zip(batches, said, strict=True):
            if reply == [held.fence for held in batch.held]:
                if len(batch.held) == len(renewals):
                    return list(batch.held)  # the usual case
                found.update(zip(batch.places, batch.held, strict=True))
            else:
                found.update(self._renewed(renewals, batch.places, reply))
        rest = [at for at in range(len(renewals)) if at not in found]
        if rest:
            others = [renewals[at] for at in rest]
            calls = [self._requests.renew(one) for one in others]
            found.update(zip(rest, await self._each(calls, others, within), strict=True))
        return [found[at] for at in range(len(renewals))]

    def _renewed(
        self, renewals: Sequence[Renewal], places: list[int], reply: Reply | Exception
    ) -> dict[int, Standing | Exception]:
        """The answers to the renewals of one call, without those to send as a separate stand."""
        try:
            answers = replies.renewed(_whole(reply), [renewals[at] for at in places], self.label)
        except HoldfastError as wrong:
            return dict.fromkeys(places, wrong)
        return {at: one for at, one in zip(places, answers, strict=True) if one is not None}

    async def _each(
        self, calls: Sequence[Call], renewals: Sequence[Renewal], within: float
    ) -> list[Standing | Exception]:
        """Send one call for each renewal, in one round trip."""
        answers: list[Standing | Exception] = []
        said = await self._port.ask_many(calls, within)
        for reply, renewal in zip(said, renewals, strict=True):
            try:
                answers.append(self._stood(_whole(reply), renewal.ttl))
            except HoldfastError as wrong:
                answers.append(wrong)
        return answers

    async def _reclaim(
        self,
        renewals: Sequence[Renewal],
        places: list[int],
        found: list[Standing | Exception],
        within: float,
    ) -> None:
        """Restore the claims at these indexes that the server has forgotten; update ``found``."""
        lost = [renewals[at] for at in places]
        self._note(max(one.ticket for one in lost))
        calls = [self._requests.reclaim(one, self._recovery.window) for one in lost]
        for at, answer in zip(places, await self._each(calls, lost, within), strict=True):
            if isinstance(answer, Gone):
                continue  # the first answer has the better reason
            found[at] = answer
            if isinstance(answer, Held):
                name = renewals[at].claim.spec.name
                log.warning("%s had lost a hold on %r; it is restored", self.label, name)

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release, and grant the waiters that now fit; see the contract."""
        reply = await self._port.ask(self._requests.leave(leave), within)
        return replies.left(reply, self.label)

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        """End a claim by its ticket, and grant the waiters that now fit; see the contract."""
        reply = await self._port.ask(self._requests.break_(name, ticket), within)
        return replies.left(reply, self.label)

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Acquire several names with empty lines; see the contract."""
        held = await self._together.join_free(claims, within)
        if held:
            self._note(max(one.fence for one in held))
        return held

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Withdraw or release many in one round trip; see the contract."""
        return await self._together.leave_all(leaves, within)

    async def changed(self, within: float) -> bool:
        """True if the server can have lost data or is another server; see the contract."""
        before, found = self._verdict, await self._port.look(within)
        self._verdict = found
        another = bool(before.run_id) and before.run_id != found.run_id
        return another or (found.seconds > 0 and found.record != before.record)

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until woken or until the time-out has expired; see the contract."""
        granted = await self._port.wait(claim.id, waiting.ticket, seconds)
        if granted is not None and granted.fence > self._latest.fence:
            self._latest.fence = granted.fence  # `_note`, without a call between wake-up and return
        return granted

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """The lines whose name begins with the prefix; see the contract."""
        names = [prefix]
        if not exact:
            keys = await self._port.scan(pattern_of(self._prefix, prefix.encode()), within)
            found = {name_of(self._prefix, key) for key in keys}
            names = sorted(name for name in found if name is not None and name.startswith(prefix))
        lines: list[LineRecord] = []
        for start in range(0, len(names), _LOOK_MAX):
            part = names[start : start + _LOOK_MAX]
            said = await self._port.ask_many([self._requests.inspect(one) for one in part], within)
            for name, reply in zip(part, said, strict=True):
                line = replies.looked(_whole(reply), name, self.label)
                if line is not None:
                    lines.append(line)
        return lines

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change the capacity of a line that isn't empty; see the contract."""
        reply = await self._port.ask(self._requests.resize(name, capacity), within)
        return replies.resized(reply, self.label)

    def unlisten(self, claim: Claim) -> None:
        """Stop waiting for this claim; see the contract."""
        self._port.unlisten(claim.id)

    async def close(self) -> None:
        """Close our connections; a given client keeps its own."""
        self.queues.forget()
        self.guards.forget()
        await self._port.close()

    def forked(self) -> None:
        """Reset in the child of a fork; see the contract."""
        self.queues.forget()
        self.guards.forget()
        self._port.forked()
