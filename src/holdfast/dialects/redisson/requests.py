"""Builds the requests of the verbs: the script of each, its keys and its arguments.

``replies`` reads the answers of the scripts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...core.model import Claim, Keep, Kind, Leave
from ...core.policy import TOMB_S
from ...stores.redis.library import Script
from ...stores.redis.scripts import Call
from ..port import call_of
from . import library
from .names import Names, names_of, owner_of, stem_of

#: Seconds after which a claim of ours at the front of a fair lock's queue is passed over, if its
#: client doesn't ask again. An option of the URL overrides it.
FAIR_WAIT_S = 5.0
#: Seconds for which the answer to a release is kept, for a client that repeats the release. No
#: request has a longer time limit.
LATCH_S = 10.0
#: Seconds after a change in which a claim with the former number of permits is still granted.
FORMER_S = 86_400.0
#: Maximum weight: the number of a permit in its claim is two bytes of its id.
WEIGHT_MAX = 1 << 16


class Options(NamedTuple):
    """The options of the URL about the peers."""

    prefix: str = ""
    #: True if the peers run 3.8.1; else they run a current version.
    old: bool = False
    fair: bool = False
    fenced: bool = False
    #: True if permits are only counted; else each has a lease.
    counted: bool = False
    fair_wait: float = FAIR_WAIT_S


def ms(seconds: float) -> int:
    """Convert seconds to milliseconds, rounded up.

    >>> ms(0.0101)
    11
    """
    return math.ceil(round(seconds * 1000, 6))


class Requests:
    """Builds the calls of one client: its uuid is the first half of every owner."""

    def __init__(self, options: Options, uuid: str) -> None:
        self.options = options
        self.uuid = uuid
        self._share = ms(options.fair_wait)
        #: The message when a writer ends, after which all readers can continue.
        self._wakes_all = "0" if options.old else "1"

    def names(self, name: str) -> Names:
        """The keys and channels of a name."""
        return names_of(self.options.prefix + name)

    def _leases(self, names: Names) -> str:
        """The key with the leases of permits: those of the peers and ours, or only ours."""
        return names.counted if self.options.counted else names.permits

    def owner(self, claim_id: str) -> str:
        """The owner of a claim in Redisson's terms."""
        return owner_of(self.uuid, claim_id)

    def field(self, claim: Claim) -> bytes:
        """The text that identifies a claim in a join: its owner, or the id of its first permit."""
        if claim.spec.kind is Kind.SEMAPHORE:
            return stem_of(claim.id) + b"\0\0"
        writes = claim.spec.kind is Kind.RWLOCK and claim.spec.weight > 1
        return (self.owner(claim.id) + (":write" if writes else "")).encode()

    def channel(self, claim: Claim) -> bytes:
        """The channel whose messages make a waiter ask again."""
        names = self.names(claim.spec.name)
        if claim.spec.kind is Kind.SEMAPHORE:
            return names.permit_channel.encode()
        if claim.spec.kind is Kind.RWLOCK:
            return names.rw_channel.encode()
        if self.options.fair:
            return f"{names.channel}:{self.owner(claim.id)}".encode()
        return names.channel.encode()

    def join(self, claim: Claim, wait: bool) -> Call:
        """Take the lock if it is available. Answer: `replies.joined`."""
        spec, names = claim.spec, self.names(claim.spec.name)
        lease, field, tombstone = ms(spec.ttl), self.field(claim), names.tombstone(claim.id)
        if spec.kind is Kind.SEMAPHORE:
            keys = [names.lock, self._leases(names), tombstone, names.former]
            mine = (stem_of(claim.id), spec.weight, int(self.options.counted))
            return _call(
                library.JOIN_PERMITS, keys, lease, spec.capacity, names.permit_channel, *mine
            )
        if spec.kind is Kind.RWLOCK:
            if spec.weight > 1:
                return _call(library.JOIN_WRITE, [names.lock, tombstone], lease, field)
            keys = [names.lock, tombstone, names.lease(self.owner(claim.id))]
            return _call(library.JOIN_READ, keys, lease, field)
        if self.options.fair:
            keys = [names.lock, tombstone, names.queue, names.times]
            how = (int(wait), self._share, int(self.options.old))
            return _call(library.JOIN_FAIR, keys, lease, field, *how)
        keys = [names.lock, tombstone, names.tokens]
        return _call(library.JOIN, keys, lease, field, int(self.options.fenced))

    def keep(self, keeps: Sequence[Keep]) -> Call:
        """Renew holds. Answer: `replies.kept`."""
        keys: list[str] = []
        args: list[str | bytes | int] = []
        for keep in keeps:
            claim, lease = keep.claim, ms(keep.ttl)
            spec, names = claim.spec, self.names(claim.spec.name)
            if spec.kind is Kind.SEMAPHORE:
                keys += [self._leases(names)] * 2
                args += ["permit", lease, stem_of(claim.id), spec.weight]
            elif spec.kind is Kind.RWLOCK and (keep.weight or spec.weight) == 1:
                owner = self.owner(claim.id)
                keys += [names.lock, names.lease(owner)]
                args += ["read", lease, owner, 1]
            else:
                keys += [names.lock, names.lock]
                args += ["lock", lease, self.field(claim), 1]
        return _call(library.KEEP, keys, *args)

    def downgrade(self, keep: Keep) -> Call:
        """Make a writer a reader. Answer: 1 if it is one now."""
        names, owner = self.names(keep.claim.spec.name), self.owner(keep.claim.id)
        keys = [names.lock, names.lease(owner)]
        said = (names.rw_channel, self._wakes_all)
        return _call(library.DOWNGRADE, keys, ms(keep.ttl), owner, *said)

    def leave(self, leave: Leave, latches: Sequence[str] = ()) -> Call:
        """Withdraw or release. Answer: 1 if it was held.

        ``latches``: those of earlier releases whose answers have arrived, to delete them."""
        return self._end(library.LEAVE, leave, self.owner(leave.id), latches)

    def breaks(self, leave: Leave, field: bytes) -> Call:
        """End the hold of this owner, also one of another client. Answer: 1 if there was one."""
        return self._end(library.BREAK, leave, field)

    def _end(
        self, script: Script, leave: Leave, owner: str | bytes, latches: Sequence[str] = ()
    ) -> Call:
        names, options = self.names(leave.name), self.options
        keys = [names.lock, names.latch(leave.id), names.tombstone(leave.id)]
        keys += [names.queue, names.times, self._leases(names), *latches]
        lives = (
            ms(leave.ttl),
            0 if options.old else ms(LATCH_S),
            ms(leave.ttl + TOMB_S) if leave.suspect else 0,
        )
        said = (names.channel, names.rw_channel, names.permit_channel, self._wakes_all)
        rest = (names.leases, stem_of(leave.id))
        return _call(script, keys, owner, *lives, int(options.fair), self._share, *said, *rest)

    def inspect(self, name: str, exact: bool = True) -> Call:
        """Read the holders and waiters; ``exact``: of this name itself. See `replies.looked`."""
        names = self.names(name)
        keys = [names.lock, names.tokens, names.queue, names.times, self._leases(names)]
        return _call(library.INSPECT, keys, names.leases, int(exact and self.options.counted))

    def resize(self, name: str, capacity: int) -> Call:
        """Change the number of permits. Answer: `replies.resized`."""
        names = self.names(name)
        keys = [names.lock, names.permits, names.former]
        return _call(library.RESIZE, keys, capacity, names.permit_channel, ms(FORMER_S))


def _call(script: Script, keys: Iterable[str], *args: str | bytes | int) -> Call:
    packed = (one if isinstance(one, bytes) else str(one).encode() for one in args)
    return call_of(script, [key.encode() for key in keys], *packed)
