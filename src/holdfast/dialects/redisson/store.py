"""The verbs on Redisson's keys: the request of each verb, and the meaning of its answer.

Only a fair lock has a line (Redisson's queue). Otherwise a waiter writes nothing to the server. It
subscribes to the channel on which Redisson publishes the end of a hold. It asks again after a
message, or when the holder's lease has expired, and after a second at the latest. The ticket of a
claim is 0 until the claim is held.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from ...core.model import (
    Capabilities,
    Claim,
    Gone,
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
from ...stores.redis.replies import whole
from ...stores.redis.scripts import Call
from ..port import literal
from . import replies
from .requests import WEIGHT_MAX, Options, Requests

Reply = Any
#: Maximum number of renewals in one request, as with Redisson itself.
BATCH_MAX = 100
#: Maximum number of names that `inspect` reads in one round trip.
_LOOK_MAX = 50
#: Maximum number of answers to earlier releases that one release deletes at the server.
_LATCHES_MAX = 100


class Port(Protocol):
    """Sends requests to the server, and wakes waiters that should ask again.

    Each method ends within ``within`` seconds, or raises ``StoreUnavailable``. An error reply is
    returned as a ``ServerSaid``. See :class:`holdfast.dialects.port.Port`.
    """

    #: The store's name in messages, never with a password.
    label: str

    def ask(self, call: Call, within: float) -> Awaitable[Reply]:
        """Send one call of a script."""
        ...

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Reply | Exception]:
        """Send several calls in one round trip; one answer per call, in order."""
        ...

    async def listen(self, claim_id: str, channel: bytes, call: Call, within: float) -> Reply:
        """Subscribe to this channel, then send the call of a waiter.

        In this order no message after the call is lost. If the server refuses the subscription, the
        call is sent anyway."""
        ...

    async def sleep(self, claim_id: str, seconds: float) -> None:
        """Sleep until a new message arrives, or ``seconds`` have passed.

        Return immediately if the subscription was lost."""
        ...

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim, if it waits. Never fails, never suspends."""
        ...

    def now(self) -> float:
        """Seconds of a clock that never jumps: to divide a verb's time among its requests."""
        ...

    async def scan(self, pattern: bytes, within: float) -> list[bytes]:
        """Return the keys that match, each once, unordered."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...

    def forked(self) -> None:
        """Forget the parent's connections, in the child of a fork."""
        ...


class RedissonStore(NoHandover):
    """The contract of the methods is :class:`holdfast.core.ports.Store`."""

    batch_max = BATCH_MAX
    patience = PATIENCE_S
    #: There is no recovery after a server lost its data, because the peers don't take part in it.
    watch_every = lease_max = math.inf

    def __init__(
        self, port: Port, options: Options, can: Capabilities, new_uuid: Callable[[], str]
    ) -> None:
        self._port = port
        self._options = options
        self._new_uuid = new_uuid
        # An order needs FairLock, and tokens need FencedLock. A capability is valid for the whole
        # store, so with one of these options the store has no other primitives. The total number of
        # counted permits is unknown.
        alone = options.fair or options.fenced
        self.capabilities = can._replace(
            fair=options.fair,
            visible_line=options.fair,
            fences=options.fenced,
            semaphore=not alone,
            rwlock=not alone,
            resize=not (alone or options.counted),
        )
        self.label = port.label
        self._start()

    def _start(self) -> None:
        self._requests = Requests(self._options, self._new_uuid())
        #: The keys of answers to releases that this client has received; a later release deletes
        #: the keys.
        self._latches: deque[str] = deque(maxlen=_LATCHES_MAX)
        #: The ids of claims with a request that got no reply: the server can have granted them.
        self._unsure: set[str] = set()

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Take the lock if it is available; otherwise subscribe and ask again; see the contract."""
        if claim.spec.weight > WEIGHT_MAX and claim.spec.kind is Kind.SEMAPHORE:
            raise NotSupported(f"{self.label} gives at most {WEIGHT_MAX} permits to one claim")
        begun = self._port.now()
        answer = self._joined(await self._port.ask(self._requests.join(claim, wait), within), claim)
        if not wait or not isinstance(answer, Refused):
            return answer
        return await self._again(claim, within - (self._port.now() - begun))

    async def _again(self, claim: Claim, within: float) -> Joined:
        """Subscribe and ask for a waiter.

        The subscription comes first, so no end of a hold after the answer is missed."""
        call = self._requests.join(claim, True)
        channel = self._requests.channel(claim)
        try:
            reply = await self._port.listen(claim.id, channel, call, within)
        except StoreUnavailable:
            self._unsure.add(claim.id)
            raise
        return replies.waits(reply) or self._joined(reply, claim)

    def _joined(self, reply: Reply, claim: Claim) -> Joined:
        field = self._requests.field(claim)
        return replies.joined(reply, claim, field, self._options.fenced, self.label)

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """Renew a batch in one round trip; see the contract."""
        calls: list[Call] = []
        shrunk = [at for at, renewal in enumerate(renewals) if self._downgrades(renewal)]
        plain = [at for at in range(len(renewals)) if at not in shrunk]
        if plain:
            calls.append(self._requests.renew([renewals[at] for at in plain]))
        calls += [self._requests.downgrade(renewals[at]) for at in shrunk]
        said = await self._port.ask_many(calls, within)
        found: dict[int, Standing | Exception] = {}
        if plain:
            found.update(self._renewed(said.pop(0), renewals, plain))
        for at, reply in zip(shrunk, said, strict=True):
            found.update(self._renewed([reply] if type(reply) is int else reply, renewals, [at]))
        return [found[at] for at in range(len(renewals))]

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """Ask again for a waiter; see the contract.

        The server knows a claim by its id and its client, so the same id at another client is
        another claim. A claim that can no longer be granted is `Gone`; its next join returns the
        reason."""
        answer = await self._again(claim, within)
        return answer if isinstance(answer, Held | Waiting | Gone) else Gone(Loss.EXPIRED)

    @staticmethod
    def _downgrades(renewal: Renewal) -> bool:
        """Return True if this renewal makes a writer a reader."""
        spec = renewal.claim.spec
        return spec.kind is Kind.RWLOCK and 0 < renewal.weight < spec.weight

    def _renewed(
        self, reply: Reply | Exception, renewals: Sequence[Renewal], places: list[int]
    ) -> dict[int, Standing | Exception]:
        part = [renewals[at] for at in places]
        try:
            renewed = replies.renewed(whole(reply), part, self.label)
        except HoldfastError as wrong:
            return dict.fromkeys(places, wrong)
        return dict(zip(places, renewed, strict=True))

    async def leave(self, leave: Leave, within: float) -> bool:
        """Withdraw or release; see the contract."""
        (answer,) = await self.leave_all([leave], within)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Withdraw or release several claims in one round trip; see the contract."""
        latches = self._forgotten() if leaves else []
        calls = []
        for leave in leaves:
            unsure = leave.suspect or leave.id in self._unsure
            calls.append(self._requests.leave(leave._replace(suspect=unsure), latches))
            latches = []
        said = await self._port.ask_many(calls, within)
        answers: list[bool | Exception] = []
        for leave, reply in zip(leaves, said, strict=True):
            try:
                there = replies.done(whole(reply), self.label)
            except HoldfastError as wrong:
                answers.append(wrong)
                continue
            answers.append(there)
            self._unsure.discard(leave.id)
            if there and not self._options.old:
                self._latches.append(self._requests.names(leave.name).latch(leave.id))
        return answers

    def _forgotten(self) -> list[str]:
        """Remove the keys from ``_latches``, at most `_LATCHES_MAX`, and return them."""
        found: list[str] = []
        with contextlib.suppress(IndexError):  # another thread took the last one
            while len(found) < _LATCHES_MAX:
                found.append(self._latches.popleft())
        return found

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        """End the hold whose fence or number is ``ticket``, if there is one; see the contract."""
        fenced = self._options.fenced
        begun = self._port.now()
        reply = await self._port.ask(self._requests.inspect(name), within)
        left = within - (self._port.now() - begun)
        for row in replies.rows(reply, self.label):
            token = reply[2] if fenced and row.held else row.number
            if token == ticket:
                call = self._requests.breaks(name, row.field)
                return replies.done(await self._port.ask(call, left), self.label)
        return False

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Always None: Redisson can't acquire several locks in one step; see the contract."""
        return None

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> None:
        """Sleep until a message arrives, or ``seconds`` have passed; see the contract."""
        await self._port.sleep(claim.id, seconds)

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """Return the names whose lock is held by any client, also by peers; see the contract."""
        names = [prefix]
        if not exact:
            start = self._options.prefix.encode()
            keys = await self._port.scan(literal(start + prefix.encode()) + b"*", within)
            names = sorted(key[len(start) :].decode("utf-8", "surrogateescape") for key in keys)
        lines: list[LineRecord] = []
        for start_at in range(0, len(names), _LOOK_MAX):
            part = names[start_at : start_at + _LOOK_MAX]
            said = await self._port.ask_many(
                [self._requests.inspect(one, exact) for one in part], within
            )
            for name, reply in zip(part, said, strict=True):
                fenced = self._options.fenced
                line = replies.looked(whole(reply), name, fenced, self.label, exact)
                if line is not None:
                    lines.append(line)
        return lines

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Change the number of permits; see the contract."""
        reply = await self._port.ask(self._requests.resize(name, capacity), within)
        return replies.resized(reply, name, self.label)

    async def changed(self, within: float) -> bool:
        """Return False always: this store doesn't notice a loss of data; see ``watch_every``."""
        return False

    def unlisten(self, claim: Claim) -> None:
        """Stop waiting for this claim; see the contract."""
        self._port.unlisten(claim.id)

    def inherit(self, other: RedissonStore) -> None:
        """Act as the client of a store whose event loop no longer runs, to release its claims."""
        self._requests, self._unsure = other._requests, other._unsure

    async def close(self) -> None:
        """Close the store's connections."""
        await self._port.close()

    def forked(self) -> None:
        """Become a new client, with a new uuid, in the child of a fork."""
        self._port.forked()
        self._start()
