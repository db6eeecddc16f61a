"""Redisson's keys, channels and owners for a name.

The key of the lock ``N`` is ``N`` itself. A lock has more keys, its helpers. Their names contain
``N`` in braces, so that a cluster keeps all keys of the lock in one slot. If ``N`` contains a brace
already, no braces are added.

    redisson_lock__channel:{N}                  channel: the lock was released
    redisson_rwlock:{N}                         channel: a read-write lock was released
    redisson_sc:{N}                             channel: permits were released
    redisson_lock_queue:{N}                     a fair lock's queue
    redisson_lock_timeout:{N}                   the time-outs of the waiters in that queue
    redisson_lock_token:{N}                     the last token of a fenced lock
    redisson_unlock_latch:{N}:<request>         the answer to a release, in case it is repeated
    {N}:<owner>:rwlock_timeout:1                the lease of one reader
    {N}:timeout                                 the leases of permits
    holdfast_tombstone:{N}:<digest>             holdfast's: the tombstone of an ended claim
    holdfast_permits:{N}                        holdfast's: the leases of permits that are counted
    holdfast_former:{N}                         holdfast's: the former number of permits

Owners are ``<uuid>:<number>``; the owner of a claim is its field in the hash of the lock. The uuid
belongs to the client. The number is a digest of the claim's secret id. So a claim always has the
same field, and the field doesn't reveal the id.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

#: Our number replaces Java's thread id, which has 63 bits.
_NUMBER_MASK = (1 << 63) - 1
_STEM_BYTES = 14


def prefixed(prefix: str, name: str) -> str:
    """Return the name of a helper key: its word, then the lock's name.

    >>> prefixed("redisson_lock_queue", "a"), prefixed("redisson_lock_queue", "a{b}")
    ('redisson_lock_queue:{a}', 'redisson_lock_queue:a{b}')
    """
    return f"{prefix}:{name}" if "{" in name else f"{prefix}:{{{name}}}"


def suffixed(name: str, suffix: str) -> str:
    """Return the name of a helper key: the lock's name, then the word of the helper.

    >>> suffixed("a", "timeout"), suffixed("a{b}", "timeout")
    ('{a}:timeout', 'a{b}:timeout')
    """
    return f"{name}:{suffix}" if "{" in name else f"{{{name}}}:{suffix}"


def leases_start(name: str) -> str:
    """Return the common beginning of the keys of all readers' leases.

    >>> leases_start("a"), leases_start("a{b}")
    ('{a}', 'a{b}')
    """
    return name if "{" in name else f"{{{name}}}"


def digest(what: str, claim_id: str) -> str:
    """Return 32 hexadecimal digits that identify a claim and don't reveal its id."""
    return sha256(f"{what}:{claim_id}".encode()).hexdigest()[:32]


def owner_of(uuid: str, claim_id: str) -> str:
    """Return the field of a claim in the hash of its lock.

    >>> owner_of("6cbd1b9c-6d1e-4c2c-9d3c-1d4f6f3a9e01", "00ff").rpartition(":")[0]
    '6cbd1b9c-6d1e-4c2c-9d3c-1d4f6f3a9e01'
    """
    number = int(digest("owner", claim_id), 16) & _NUMBER_MASK
    return f"{uuid}:{number}"


def stem_of(claim_id: str) -> bytes:
    """Return the common beginning of the ids of a claim's permits.

    Each id has 16 bytes, as in Redisson. The last two bytes number the permits of the claim."""
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
        """Return the key that contains the answer to this claim's release for some seconds."""
        return f"{prefixed('redisson_unlock_latch', self.lock)}:{digest('latch', claim_id)}"

    def tombstone(self, claim_id: str) -> str:
        """Return the key of the tombstone that refuses a late join of an ended claim."""
        return f"{prefixed('holdfast_tombstone', self.lock)}:{digest('tombstone', claim_id)}"

    def lease(self, owner: str) -> str:
        """Return the key of this owner's first lease as a reader."""
        return f"{self.leases}:{owner}:rwlock_timeout:1"


def names_of(lock: str) -> Names:
    """Return the keys and channels of a lock; its name begins with the option ``prefix=``.

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
