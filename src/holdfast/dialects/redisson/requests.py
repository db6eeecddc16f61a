"""Builds the requests of the verbs: the script of each, its keys and its arguments.

``replies`` reads the answers of the scripts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...core.model import Claim, Kind, Leave, Renewal
from ...core.policy import TOMB_S
from ...stores.redis.library import Script
from ...stores.redis.scripts import Call
from ..port import call_of
from . import library
from .names import Names, names_of, owner_of, stem_of

#: Seconds for which a holdfast claim may stay first in a fair lock's queue while its client doesn't
#: ask. After that, the next claim is served. The option ``fair_wait=`` overrides this value.
FAIR_WAIT_S = 5.0
#: Seconds for which the server keeps the answer to a release, in case the client repeats the
#: release. No request has a longer time limit.
LATCH_S = 10.0
#: Seconds after a resize in which a claim with the former number of permits is still granted.
FORMER_S = 86_400.0
#: Maximum weight of a claim: two bytes in the id of each permit number the permits of the claim.
WEIGHT_MAX = 1 << 16


class Options(NamedTuple):
    """The options of the URL that depend on the Redisson clients (the peers)."""

    prefix: str = ""
    #: True if the peers run Redisson 3.8.1, False if they run a current version.
    old: bool = False
    fair: bool = False
    fenced: bool = False
    #: True if permits are only counted, False if each has a lease.
    counted: bool = False
    fair_wait: float = FAIR_WAIT_S


def ms(seconds: float) -> int:
    """Convert seconds to milliseconds, rounded up.

    >>> ms(0.0101)
    11
    """
    return math.ceil(round(seconds * 1000, 6))


class Requests:
    """Builds the calls of one client; its uuid is the first half of the owner in each call."""

    def __init__(self, options: Options, uuid: str) -> None:
        self.options = options
        self.uuid = uuid
        self._share = ms(options.fair_wait)
        #: The content of the message at the end of a writer. All waiting readers can then continue.
        self._wakes_all = "0" if options.old else "1"

    def names(self, name: str) -> Names:
        """Return the keys and channels of a name."""
        return names_of(self.options.prefix + name)

    def _leases(self, names: Names) -> str:
        """Return the key with the leases of permits; the peers' counted permits have no lease."""
        return names.counted if self.options.counted else names.permits

    def owner(self, claim_id: str) -> str:
        """Return the owner of a claim in Redisson's terms."""
        return owner_of(self.uuid, claim_id)

    def field(self, claim: Claim) -> bytes:
        """Return the text that identifies a claim in a join.

        It is the claim's owner, or for a semaphore the id of the claim's first permit."""
        if claim.spec.kind is Kind.SEMAPHORE:
            return stem_of(claim.id) + b"\0\0"
        writes = claim.spec.kind is Kind.RWLOCK and claim.spec.weight > 1
        return (self.owner(claim.id) + (":write" if writes else "")).encode()

    def channel(self, claim: Claim) -> bytes:
        """Return the channel whose messages make a waiter ask again."""
        names = self.names(claim.spec.name)
        if claim.spec.kind is Kind.SEMAPHORE:
            return names.permit_channel.encode()
        if claim.spec.kind is Kind.RWLOCK:
            return names.rw_channel.encode()
        if self.options.fair:
            return f"{names.channel}:{self.owner(claim.id)}".encode()
        return names.channel.encode()

    def join(self, claim: Claim, wait: bool) -> Call:
        """Return the call that takes the lock if it is available. `replies.joined` reads it."""
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

    def renew(self, renewals: Sequence[Renewal]) -> Call:
        """Return the call that renews holds. `replies.renewed` reads its answer."""
        keys: list[str] = []
        args: list[str | bytes | int] = []
        for renewal in renewals:
            claim, lease = renewal.claim, ms(renewal.ttl)
            spec, names = claim.spec, self.names(claim.spec.name)
            if spec.kind is Kind.SEMAPHORE:
                keys += [self._leases(names)] * 2
                args += ["permit", lease, stem_of(claim.id), spec.weight]
            elif spec.kind is Kind.RWLOCK and (renewal.weight or spec.weight) == 1:
                owner = self.owner(claim.id)
                keys += [names.lock, names.lease(owner)]
                args += ["read", lease, owner, 1]
            else:
                keys += [names.lock, names.lock]
                args += ["lock", lease, self.field(claim), 1]
        return _call(library.RENEW, keys, *args)

    def downgrade(self, renewal: Renewal) -> Call:
        """Return the call that turns a writer into a reader. The answer is 1 on success."""
        names, owner = self.names(renewal.claim.spec.name), self.owner(renewal.claim.id)
        keys = [names.lock, names.lease(owner)]
        said = (names.rw_channel, self._wakes_all)
        return _call(library.DOWNGRADE, keys, ms(renewal.ttl), owner, *said)

    def leave(self, leave: Leave, latches: Sequence[str] = ()) -> Call:
        """Return the call that withdraws or releases a claim. The answer is 1 if it was held.

        ``latches``: keys of answers to earlier releases. The answers have arrived, so the call
        deletes the keys."""
        return self._end(library.LEAVE, leave, self.owner(leave.id), latches)

    def breaks(self, name: str, field: bytes) -> Call:
        """Return the call that ends the hold of an owner, also of another client.

        The answer is 1 if there was a hold."""
        return self._end(library.BREAK, Leave(name, "", 0), field)

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
        """Return the call that reads the holders and waiters. `replies.looked` reads its answer.

        ``exact``: the caller asked for this name itself, not for names with a prefix."""
        names = self.names(name)
        keys = [names.lock, names.tokens, names.queue, names.times, self._leases(names)]
        return _call(library.INSPECT, keys, names.leases, int(exact and self.options.counted))

    def resize(self, name: str, capacity: int) -> Call:
        """Return the call that sets the number of permits. `replies.resized` reads its answer."""
        names = self.names(name)
        keys = [names.lock, names.permits, names.former]
        return _call(library.RESIZE, keys, capacity, names.permit_channel, ms(FORMER_S))


def _call(script: Script, keys: Iterable[str], *args: str | bytes | int) -> Call:
    packed = (one if isinstance(one, bytes) else str(one).encode() for one in args)
    return call_of(script, [key.encode() for key in keys], *packed)
