"""The verbs on plain keys: the request of each verb, and the meaning of its answer.

There is no line, so a waiter has ticket 0 and writes nothing to the server. It tries again after a
notification that the key has changed, and at intervals. Only these tries take the key. So no
renewal takes a lost lock again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.model import (
    Capabilities,
    Claim,
    ClaimRecord,
    Gone,
    Granted,
    Held,
    Joined,
    Kind,
    Leave,
    LineRecord,
    Loss,
    Mismatch,
    Refused,
    Renewal,
    Standing,
    Waiting,
)
from ...core.policy import PATIENCE_S
from ...core.ports import NoHandover
from ...errors import HoldfastError, NotSupported, StoreUnavailable
from ...stores.redis.complaints import ServerSaid
from ..claims import number_of, shown
from ..families import refusal
from ..port import Port, Reply, literal, refused
from ..waits import Wait
from .layouts import Layout
from .requests import GONE, Requests

CAPABILITIES = Capabilities(
    store="redis+plain",
    fair=False,
    semaphore=False,
    rwlock=False,
    election=False,
    resize=False,
    detach=False,
    min_hold=False,
    fences=False,
    visible_line=False,
    owners=False,
    kinds=False,
    wakeup_grants=False,
    durable_fences=False,
)
#: Maximum seconds for a new waiter to set its watch; else the waiter does that at its next try.
ARM_S = 0.2
#: Maximum number of keys that `inspect` reads in one round trip.
_LOOK_MAX = 100
_FAMILY = "plain"


class PlainStore(NoHandover):
    """The contract of the methods is :class:`holdfast.core.ports.Store`."""

    capabilities = CAPABILITIES
    batch_max = 100
    patience = PATIENCE_S
    watch_every = lease_max = math.inf

    def __init__(self, port: Port, layout: Layout) -> None:
        self._port = port
        self._requests = Requests(layout)
        self.label = port.label
        self._start()

    def _start(self) -> None:
        #: The id of a waiting claim -> the state that gives the time of its next try.
        self._waits: dict[str, Wait] = {}
        #: The ids of claims with a request that got no reply and can still arrive at the server.
        self._suspect: set[str] = set()

    # -- acquiring -------------------------------------------------------------------------

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Take the key if it is free; see the contract."""
        reply = await self._port.ask(self._requests.join(claim, self._port.wall()), within)
        answer = self._joined(reply, claim)
        if isinstance(answer, Held | Gone):
            return answer
        if not wait:
            return Refused(answer or 0.0, "")
        found = self._waits[claim.id] = Wait(claim.id)
        try:
            return await self._try_again(claim, found, min(within, ARM_S))
        except StoreUnavailable:
            return Waiting(0, 0, found.again(None, False))

    async def _try_again(self, claim: Claim, wait: Wait, within: float) -> Standing:
        """Try to take the key for a waiter; if it is taken, ask to be notified of its change."""
        port, requests = self._port, self._requests
        sure = claim.id not in self._suspect
        try:
            same = wait.armed == port.hears(claim.id) and not port.hopes(claim.id)
            if sure and wait.knows and same:
                reply = await port.ask(requests.probe(claim, port.wall()), within)
            else:
                key = requests.layout.key(claim.spec.name)
                call = requests.join(claim, port.wall())
                reply = await port.watch(claim.id, key, call, within)
        except BaseException:
            self._suspect.add(claim.id)
            raise
        answer = self._joined(reply, claim)
        if isinstance(answer, Held | Gone):
            return answer
        return Waiting(0, 0, wait.again(answer, port.hears(claim.id)))

    def _joined(self, reply: Reply, claim: Claim) -> Held | Gone | float | None:
        """Read the answer to a join. If the key is taken, return its seconds to live.

        The result is None if the key is taken and the answer contains no seconds."""
        ticket = number_of(self._requests.mark(claim.id))
        match reply:
            case 1:
                return Held(ticket, claim.spec.ttl)
            case [1, int() as left]:
                return Held(ticket, min(claim.spec.ttl, left / 1000))
            case [2]:
                return None
            case [2, int() as left]:
                return left / 1000 if left >= 0 else math.inf
            case [4]:
                return Gone(Loss.EXPIRED)
            case [9, bytes() as family]:
                raise refusal(claim.spec.name, family.decode(), _FAMILY, self.label)
        raise self._wrong(reply)

    def _wrong(self, reply: Reply) -> Exception:
        if isinstance(reply, ServerSaid):
            return refused(reply, self.label)
        if isinstance(reply, Exception):
            return reply
        return HoldfastError(f"{self.label} answered what no script of holdfast answers")

    # -- renewing and waiting --------------------------------------------------------------

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """Renew holds in one round trip; see the contract."""
        calls = [self._requests.renew(renewal.claim, renewal.ttl) for renewal in renewals]
        said = await self._port.ask_many(calls, within)
        return [
            self._renewed(renewal, reply) for renewal, reply in zip(renewals, said, strict=True)
        ]

    def _renewed(self, renewal: Renewal, reply: Any) -> Standing | Exception:
        if reply == 1:
            return Held(renewal.ticket, renewal.ttl)
        if reply == 0:  # if the lease has expired, the caller reports that instead
            return Gone(Loss.BROKEN)
        return self._wrong(reply)

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """Try again to take the key, if that is due; see the contract."""
        wait = self._waits.setdefault(claim.id, Wait(claim.id))
        if wait.left > 0:
            return Waiting(0, 0, wait.left)
        return await self._try_again(claim, wait, within)

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep until the key has changed, and grant nothing; see the contract."""
        wait = self._waits.get(claim.id)
        heard = await self._port.await_change(claim.id, seconds)
        if wait is not None:
            wait.slept(seconds, heard)
        return None

    def unlisten(self, claim: Claim) -> None:
        """Stop waiting for this claim; see the contract."""
        self._waits.pop(claim.id, None)
        self._port.unlisten(claim.id)

    # -- releasing -------------------------------------------------------------------------

    async def leave(self, leave: Leave, within: float) -> bool:
        """Free the key; see the contract."""
        suspect = leave.suspect or leave.id in self._suspect
        found = self._left(await self._port.ask(self._requests.leave(leave, suspect), within))
        self._suspect.discard(leave.id)
        return found

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        """Free the key if ``ticket`` is the number of its holder; see the contract."""
        requests = self._requests
        seen = await self._port.ask(requests.look(requests.layout.key(name)), within / 2)
        match seen:
            case [bytes() as token, int()]:
                if number_of(requests.shape.mark_in(token)) != ticket:
                    return False
                call = requests.take_away(name, token)
                return self._left(await self._port.ask(call, within / 2))
            case 0:
                return False
            case [9, bytes() as family]:
                raise refusal(name, family.decode(), _FAMILY, self.label)
        raise self._wrong(seen)

    def _left(self, reply: Reply) -> bool:
        if reply in (0, 1):
            return bool(reply)
        raise self._wrong(reply)

    # -- several claims --------------------------------------------------------------------

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Always None: keys are taken one after the other; see the contract."""
        return None

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Free many keys in one round trip; see the contract."""
        calls = [
            self._requests.leave(leave, leave.suspect or leave.id in self._suspect)
            for leave in leaves
        ]
        found: list[bool | Exception] = []
        for leave, reply in zip(leaves, await self._port.ask_many(calls, within), strict=True):
            if reply in (0, 1):
                self._suspect.discard(leave.id)
                found.append(bool(reply))
            else:
                found.append(self._wrong(reply))
        return found

    # -- inspection and other verbs --------------------------------------------------------

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """Return the holders of the names that begin with the prefix; see the contract."""
        layout = self._requests.layout
        names = [prefix]
        if not exact:
            found = await self._port.scan(literal(layout.key(prefix)) + b"*", within)
            names = sorted({name for key in found if (name := self._name(key)) is not None})
        lines: list[LineRecord] = []
        for start in range(0, len(names), _LOOK_MAX):
            part = names[start : start + _LOOK_MAX]
            calls = [self._requests.look(layout.key(name)) for name in part]
            for name, reply in zip(part, await self._port.ask_many(calls, within), strict=True):
                line = self._looked(name, reply, exact)
                if line is not None:
                    lines.append(line)
        return lines

    def _name(self, key: bytes) -> str | None:
        """Return the name that belongs to a key; None for a tombstone or any other key."""
        if GONE in key:
            return None
        try:
            return key.decode().removeprefix(self._requests.layout.prefix) or None
        except UnicodeDecodeError:
            return None

    def _looked(self, name: str, reply: Any, exact: bool) -> LineRecord | None:
        match reply:
            case 0:
                return None
            case [bytes() as token, int() as left]:
                number = number_of(self._requests.shape.mark_in(token))
                ends = left / 1000 if left >= 0 else math.inf
                holder = ClaimRecord(shown(token), number, True, 1, -1.0, ends, 0)
                return LineRecord(name, Kind.LOCK, 1, (holder,))
            case [9, bytes() as family]:
                if exact:
                    raise refusal(name, family.decode(), _FAMILY, self.label)
                return None
        raise self._wrong(reply)

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Not supported: there is no capacity to change; see the contract."""
        raise NotSupported(f"{self.label} has no semaphores")

    async def changed(self, within: float) -> bool:
        """Always False: a loss of data at the server isn't noticed; see the contract."""
        return False

    # -- life cycle ------------------------------------------------------------------------

    async def close(self) -> None:
        """Close our connections."""
        await self._port.close()

    def forked(self) -> None:
        """Forget all waiters and connections in the child of a fork; see the contract."""
        self._start()
        self._port.forked()
