"""The verbs on timestamps, made only of plain commands: SETNX, GET, GETSET, DEL.

The value of a key is the time at which the key becomes stale. A client that finds a stale key
replaces the value with GETSET. The client holds the key if the replaced value was stale too. So if
two clients find the same stale key, only one of them gets the key. A release deletes a key only if
the key certainly contains the claim's own timestamp.

A timestamp doesn't show its owner, because two claims can write the same value. So a claim holds
the key only if the answer to its own request shows that. If the answer never comes, the key stays
until the time in the key has passed.

A verb consists of several requests, and times come from the clocks of the clients.
``docs/stores/dialects.md`` describes the errors that this allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

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
from ...errors import ConfigError, HoldfastError, NotSupported, StoreUnavailable
from ...stores.redis.complaints import ServerSaid
from ..claims import shown
from ..families import refusal
from ..port import Heard, Port, Reply, literal, refused
from ..waits import Wait
from .stamps import Mine, Stamps

CAPABILITIES = Capabilities(
    store="redis+timestamp",
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
    wakes_waiters=False,
    wakeup_grants=False,
    durable_fences=False,
    clock="client",
)
#: The number of every claim: a timestamp doesn't show its owner.
NUMBER = 1
#: Maximum number of tries for a key that other clients take and free between our two requests.
_TURNS = 4
#: Minimum time limit of a request of a verb, in seconds.
_LEAST_S = 0.005
_FAMILY = "timestamp"


class TimestampStore(NoHandover):
    """The contract of the methods is :class:`holdfast.core.ports.Store`."""

    capabilities = CAPABILITIES
    batch_max = 100
    patience = PATIENCE_S
    watch_every = lease_max = math.inf

    def __init__(self, port: Port, prefix: str, seconds: bool) -> None:
        self._port = port
        self._prefix = prefix
        self._stamps = Stamps(seconds)
        self.label = port.label
        self._start()

    def _start(self) -> None:
        self._waits: dict[str, Wait] = {}
        self._mine: dict[str, Mine] = {}

    async def _do(self, until: float, *words: bytes, heard: Heard | None = None) -> Reply:
        """Send one command, and return its answer; ``until``: its deadline, by the port's clock."""
        within = max(_LEAST_S, until - self._port.now())
        reply = await self._port.command(*words, within=within, heard=heard)
        if isinstance(reply, ServerSaid) and (reply.code != "WRONGTYPE" or words[0] != b"GET"):
            raise refused(reply, self.label)
        return reply

    async def _read(self, name: str, until: float) -> bytes | None:
        """Read the key of a name; return None if the key is free."""
        key = self._key(name)
        stamp = await self._do(until, b"GET", key)
        if isinstance(stamp, ServerSaid):
            raise refusal(name, await self._family(key, until), _FAMILY, self.label)
        if stamp is not None and self._left(stamp) is None:
            raise refusal(name, "plain", _FAMILY, self.label)
        found: bytes | None = stamp
        return found

    async def _family(self, key: bytes, until: float) -> str:
        """Return the family of a key that isn't a string; guess if the server refuses to answer."""
        try:
            kind = bytes(await self._do(until, b"TYPE", key)).decode()
            if kind != "hash":
                return kind
            with_mode = await self._do(until, b"HEXISTS", key, b"mode")
        except HoldfastError:
            return "redisson"
        return "redisson-rw" if with_mode == 1 else "redisson"

    def _key(self, name: str) -> bytes:
        return (self._prefix + name).encode()

    def _left(self, stamp: bytes) -> float | None:
        return self._stamps.left(stamp, self._port.wall())

    # -- acquiring -------------------------------------------------------------------------

    async def join(self, claim: Claim, wait: bool, within: float) -> Joined:
        """Write the claim's timestamp if the key is free or stale; see the contract."""
        taken = await self._take(claim, self._port.now() + within)
        if isinstance(taken, Held):
            return taken
        if not wait:
            self._mine.pop(claim.id, None)
            return Refused(taken, "")
        found = self._waits[claim.id] = Wait(claim.id)
        return Waiting(0, 0, found.again(taken, False))

    async def _take(self, claim: Claim, until: float) -> Held | float:
        """Try to take the key; return the hold, or the seconds until the key becomes stale."""
        mine = self._mine.setdefault(claim.id, Mine())
        name, key = claim.spec.name, self._key(claim.spec.name)
        taken = 0.0
        for _ in range(_TURNS):
            fresh = self._new(claim, claim.spec.ttl)
            mine.trying = True
            if await self._do(until, b"SETNX", key, fresh, heard=partial(_heard, mine, fresh)) == 1:
                return self._got(mine, claim.spec.ttl)
            seen = await self._read(name, until)
            if seen is None:
                continue
            taken = self._left(seen) or 0.0
            if taken <= 0:
                taken = await self._port.finish(self._take_over(claim, mine, until))
                if mine.stamp:
                    return self._got(mine, claim.spec.ttl)
            break
        return max(0.0, taken)

    async def _take_over(self, claim: Claim, mine: Mine, until: float) -> float:
        """Replace a stale timestamp; if another client was first, return its remaining seconds.

        The first request can replace the timestamp of a holder; the second request then restores
        this timestamp. So a cancellation must not come between the two requests.
        """
        name, key = claim.spec.name, self._key(claim.spec.name)
        fresh = self._new(claim, claim.spec.ttl)
        before = await self._do(until, b"GETSET", key, fresh)
        left = 0.0 if before is None else self._left(before)
        if before is None or (left is not None and left <= 0):
            mine.took(fresh, over=True)
            return 0.0
        await self._put_back(key, before, fresh, until)
        if left is None:
            raise refusal(name, "plain", _FAMILY, self.label)
        return left

    async def _put_back(self, key: bytes, theirs: bytes, ours: bytes, until: float) -> None:
        """Undo a GETSET that has replaced the timestamp of another client."""
        there = await self._do(until, b"GETSET", key, theirs)
        if there is None:  # the key was freed after our GETSET
            await self._do(until, b"DEL", key)
        elif there != ours:  # the key was freed and taken again after our GETSET
            await self._do(until, b"GETSET", key, there)

    def _new(self, claim: Claim, ttl: float) -> bytes:
        return self._stamps.new(claim, ttl, self._port.wall())

    def _got(self, mine: Mine, ttl: float) -> Held:
        return Held(NUMBER, min(ttl, max(0.0, self._left(mine.stamp) or 0.0)))

    # -- renewing and waiting --------------------------------------------------------------

    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        """Renew holds, one after the other; see the contract."""
        until = self._port.now() + within
        found: list[Standing | Exception] = []
        for renewal in renewals:
            try:
                found.append(await self._port.finish(self._renew(renewal, until)))
            except HoldfastError as wrong:
                found.append(wrong)
        return found

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        """Try again to take the key, if that is due; see the contract."""
        wait = self._waits.setdefault(claim.id, Wait(claim.id))
        if wait.left > 0:
            return Waiting(0, 0, wait.left)
        taken = await self._take(claim, self._port.now() + within)
        return taken if isinstance(taken, Held) else Waiting(0, 0, wait.again(taken, False))

    async def _renew(self, renewal: Renewal, until: float) -> Standing:
        claim = renewal.claim
        mine = self._mine.get(claim.id)
        if mine is None or not await self._is_ours(claim.spec.name, mine, until):
            return Gone(Loss.BROKEN)
        key, seen = self._key(claim.spec.name), mine.stamp
        fresh = mine.sent = self._new(claim, renewal.ttl)
        before = await self._do(until, b"GETSET", key, fresh)
        if before == seen or (mine.over and before and self._stamps.close(before, seen)):
            mine.stamp, mine.sent = fresh, b""
            return self._got(mine, renewal.ttl)
        mine.stamp = mine.sent = b""  # another client took the key between our two requests
        if before is None:
            await self._do(until, b"DEL", key)
        else:
            await self._put_back(key, before, fresh, until)
        return Gone(Loss.BROKEN)

    async def _is_ours(self, name: str, mine: Mine, until: float) -> bool:
        """Return True if the key contains the claim's timestamp, and isn't stale yet."""
        if not mine.stamp:
            return False
        seen = await self._read(name, until)
        if seen is None or (self._left(seen) or 0.0) <= 0:
            return False
        if mine.sent and seen == mine.sent and (self._left(mine.stamp) or 0.0) > 0:
            mine.stamp, mine.sent = seen, b""  # a renewal got no answer, but took effect in time
        if mine.over and seen != mine.stamp and self._stamps.close(seen, mine.stamp):
            mine.stamp = seen
        return seen == mine.stamp

    async def wait(self, claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        """Sleep; in this dialect no notification ends the sleep; see the contract."""
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
        """Delete the key if it certainly contains the claim's timestamp; see the contract."""
        until = self._port.now() + within
        mine = self._mine.get(leave.id)
        if mine is None:
            return False
        there = False
        try:
            if mine.trying:  # the answer to SETNX, if any, comes before the answer to this read
                await self._read(leave.name, until)
            there = await self._is_ours(leave.name, mine, until)
        except ConfigError:
            there = False  # the key is of another family, so it isn't ours
        if there:
            there = await self._do(until, b"DEL", self._key(leave.name)) == 1
        self._mine.pop(leave.id, None)
        return there

    async def break_(self, name: str, ticket: int, within: float) -> bool:
        """Delete the key, of any holder, unless it is stale; see the contract.

        All holders have the same number as ``ticket``."""
        until = self._port.now() + within
        seen = None if ticket != NUMBER else await self._read(name, until)
        live = seen is not None and (self._left(seen) or 0.0) > 0
        return live and await self._do(until, b"DEL", self._key(name)) == 1

    # -- several claims --------------------------------------------------------------------

    async def join_free(self, claims: Sequence[Claim], within: float) -> list[Held] | None:
        """Always None: keys are taken one after the other; see the contract."""
        return None

    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        """Release several claims, one after the other; see the contract."""
        until = self._port.now() + within
        found: list[bool | Exception] = []
        for leave in leaves:
            try:
                found.append(await self.leave(leave, max(_LEAST_S, until - self._port.now())))
            except StoreUnavailable as wrong:
                found.append(wrong)
        return found

    # -- inspection and other verbs --------------------------------------------------------

    async def inspect(self, prefix: str, within: float, exact: bool = False) -> list[LineRecord]:
        """Return the holders of the names that begin with the prefix; see the contract."""
        until = self._port.now() + within
        if exact:
            line = self._line(prefix, await self._read(prefix, until))
            return [] if line is None else [line]
        names = set()
        for key in await self._port.scan(literal(self._key(prefix)) + b"*", within):
            try:
                names.add(key.decode().removeprefix(self._prefix))
            except UnicodeDecodeError:
                continue
        lines = []
        for name in sorted(names - {""}):
            try:
                line = self._line(name, await self._read(name, until))
            except ConfigError:
                continue  # the key is of another family
            if line is not None:
                lines.append(line)
        return lines

    def _line(self, name: str, stamp: bytes | None) -> LineRecord | None:
        left = 0.0 if stamp is None else self._left(stamp) or 0.0
        if stamp is None or left <= 0:
            return None
        holder = ClaimRecord(shown(stamp), NUMBER, True, 1, -1.0, left, 0)
        return LineRecord(name, Kind.LOCK, 1, (holder,))

    async def resize(self, name: str, capacity: int, within: float) -> int | Mismatch | None:
        """Not supported: there is no capacity to change; see the contract."""
        raise NotSupported(f"{self.label} has no semaphores")

    async def changed(self, within: float) -> bool:
        """Always False: a loss of data at the server isn't noticed; see the contract."""
        return False

    # -- life cycle ------------------------------------------------------------------------

    def inherit(self, other: TimestampStore) -> None:
        """Take over the claims of a store whose event loop no longer runs, to release them."""
        self._mine = other._mine

    async def close(self) -> None:
        """Close our connections."""
        await self._port.close()

    def forked(self) -> None:
        """Forget all claims and connections in the child of a fork; see the contract."""
        self._start()
        self._port.forked()


def _heard(mine: Mine, stamp: bytes, reply: Reply) -> None:
    """Record the answer to SETNX; it arrives here even if the caller was cancelled."""
    mine.trying = False
    if reply == 1:
        mine.took(stamp)
