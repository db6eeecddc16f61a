"""Redisson's keys, channels and owners for a name.

For the lock ``N``: the key itself is ``N`` as it is, and every helper begins or ends with the name
in braces, so that a cluster keeps all of them in one slot. A name that has braces is left as it is.

    redisson_lock__channel:{N}                  the end of a lock is published here
    redisson_rwlock:{N}                         ... of a read-write lock
    redisson_sc:{N}                             ... of permits
    redisson_lock_queue:{N}                     a fair lock's queue
    redisson_lock_timeout:{N}                   until when those in it wait
    redisson_lock_token:{N}                     the last token of a fenced lock
    redisson_unlock_latch:{N}:<request>         what a release answered that was sent again
    {N}:<owner>:rwlock_timeout:1                the lease of one reader
    {N}:timeout                                 the leases of permits
    holdfast_tombstone:{N}:<digest>             ours alone: a claim that must not enter any more
    holdfast_permits:{N}                        ours alone: the leases of permits that are counted
    holdfast_former:{N}                         ours alone: how many permits there were before

Owners are ``<uuid>:<number>``. The uuid is the client's, the number stands for one claim: a digest
of its secret id, so that a claim always has the same field, and the field doesn't tell the id.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

#: Java's thread ids, which stand where our number does, are numbers of 63 bits.
_NUMBER_MASK = (1 << 63) - 1
_STEM_BYTES = 14


def prefixed(prefix: str, name: str) -> str:
    """A helper whose word stands in front.

    >>> prefixed("redisson_lock_queue", "a"), prefixed("redisson_lock_queue", "a{b}")
    ('redisson_lock_queue:{a}', 'redisson_lock_queue:a{b}')
    """
    return f"{prefix}:{name}" if "{" in name else f"{prefix}:{{{name}}}"


def suffixed(name: str, suffix: str) -> str:
    """A helper whose word stands behind.

    >>> suffixed("a", "timeout"), suffixed("a{b}", "timeout")
    ('{a}:timeout', 'a{b}:timeout')
    """
    return f"{name}:{suffix}" if "{" in name else f"{{{name}}}:{suffix}"


def leases_start(name: str) -> str:
    """What the keys of all readers' leases begin with.

    >>> leases_start("a"), leases_start("a{b}")
    ('{a}', 'a{b}')
    """
    return name if "{" in name else f"{{{name}}}"


def digest(what: str, claim_id: str) -> str:
    """32 hexadecimal digits that stand for a claim, and don't tell its id."""
    return sha256(f"{what}:{claim_id}".encode()).hexdigest()[:32]


def owner_of(uuid: str, claim_id: str) -> str:
    """The field of a claim in the hash of its lock.

    >>> owner_of("6cbd1b9c-6d1e-4c2c-9d3c-1d4f6f3a9e01", "00ff").rpartition(":")[0]
    '6cbd1b9c-6d1e-4c2c-9d3c-1d4f6f3a9e01'
    """
    number = int(digest("owner", claim_id), 16) & _NUMBER_MASK
    return f"{uuid}:{number}"


def stem_of(claim_id: str) -> bytes:
    """What the ids of a claim's permits begin with. They have 16 bytes each, as Redisson's own do;
    the last two are the place of the permit in its claim."""
    return bytes.fromhex(digest("permits", claim_id))[:_STEM_BYTES]


class Names(NamedTuple):
    """The keys and channels of one name."""

    lock: str
    channel: str
    rw_channel: str
    permit_channel: str
    queue: str
    times: str
    tokens: str
    leases: str
    permits: str
    counted: str
    former: str

    def latch(self, claim_id: str) -> str:
        """Where the answer to the release of this claim is kept for a while."""
        return f"{prefixed('redisson_unlock_latch', self.lock)}:{digest('latch', claim_id)}"

    def tombstone(self, claim_id: str) -> str:
        """What a late join of this claim finds when it has left."""
        return f"{prefixed('holdfast_tombstone', self.lock)}:{digest('tombstone', claim_id)}"

    def lease(self, owner: str) -> str:
        """The lease of the first read of this owner."""
        return f"{self.leases}:{owner}:rwlock_timeout:1"


def names_of(lock: str) -> Names:
    """The keys and channels of a name, prefix included.

    >>> names_of("a").channel, names_of("a{b}").permits
    ('redisson_lock__channel:{a}', 'a{b}:timeout')
    """
    return Names(
        lock,
        prefixed("redisson_lock__channel", lock),
        prefixed("redisson_rwlock", lock),
        prefixed("redisson_sc", lock),
        prefixed("redisson_lock_queue", lock),
        prefixed("redisson_lock_timeout", lock),
        prefixed("redisson_lock_token", lock),
        leases_start(lock),
        suffixed(lock, "timeout"),
        prefixed("holdfast_permits", lock),
        prefixed("holdfast_former", lock),
    )
