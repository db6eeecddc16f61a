"""Data types of the refresh guard: entries, values, refresh leases, requests and replies.

A **guard** has **entries**, each with a key. An entry has at most one **value** and at most one
**refresh lease**: the lease of the one caller in the whole cluster that computes the next value. A
value is *fresh* for its ``ttl``. Then it is *stale*: for a while, it may be served while another
caller computes the next one. After that, if the guard allows it, the value is a *last resort*.

Everything here is immutable. ``Wish.id`` is a secret of 128 random bits, chosen before the first
byte is sent. Any process that has the id can use the refresh lease, so no ``repr`` contains it.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

# Limits, with the unit in the name. A store with lower limits gives them in its `GuardLimits`.
KEY_BYTES_MAX = 512
VALUE_BYTES_MAX = 1024 * 1024
REASON_BYTES_MAX = 1024
ENTRIES_MAX = 1000
VALUE_S_MAX = 366 * 86_400.0
#: The counts of a guard are forgotten if nothing was added to them for this time, in seconds.
TALLY_KEPT_S = 7 * 86_400.0


class GuardLimits(NamedTuple):
    """The limits of a store: the bytes of one value."""

    value_bytes: int = VALUE_BYTES_MAX


class Entry(NamedTuple):
    """The address of a value: the guard and the key (``""``: the guard has only one)."""

    guard: str
    key: str

    def __str__(self) -> str:
        return f"{self.guard}/{self.key}" if self.key else self.guard


class Value(NamedTuple):
    """A stored value, and its age by the store's clock.

    ``fresh_in``: seconds for which it is fresh, below 0 if it is stale. ``stale_in``: seconds for
    which it may be served; below 0 it is only a last resort. ``cost``: seconds that it took to
    compute. ``version``: the fence of the refresh lease that stored it.
    """

    data: bytes
    fresh_in: float
    stale_in: float
    cost: float
    version: int


class Wish(NamedTuple):
    """A request for the refresh lease, unless there is a fresh value.

    ``lease``: length of the refresh lease, in seconds, unless it is renewed. ``known``: the version
    of a value that must be replaced although it is fresh; 0 for none. ``wait``: wake this caller
    when there is a value, or when no caller has the refresh lease.
    """

    entry: Entry
    id: str
    owner: str
    lease: float
    known: int = 0
    wait: bool = False

    def __repr__(self) -> str:
        return f"Wish({str(self.entry)!r}, lease={self.lease}, owner={self.owner!r})"

    @property
    def name(self) -> str:
        """The entry, as text for messages."""
        return str(self.entry)


class Duty(NamedTuple):
    """The answer "you have the refresh lease, with this fence: compute the value".

    ``expires_in``: the seconds of the refresh lease, unless it is renewed. ``failures``: the number
    of failed computations in a row.
    """

    fence: int
    expires_in: float
    failures: int = 0


class Busy(NamedTuple):
    """The answer "another caller computes the value"; that caller's lease expires in ``retry_in``
    seconds."""

    retry_in: float


class Failing(NamedTuple):
    """The answer "the computation failed; don't try again for ``retry_in`` seconds"."""

    retry_in: float
    reason: str


#: The answers to a `Wish`. A `Value` is fresh, and its version isn't the known version.
Begun = Duty | Busy | Failing | Value


class Finish(NamedTuple):
    """A request to store a value, and to end the refresh lease of the entry.

    The value is fresh for ``ttl`` seconds, may be served for ``stale`` more, and is kept for
    ``keep`` beyond that.
    """

    entry: Entry
    id: str
    fence: int
    data: bytes
    ttl: float
    stale: float
    keep: float
    cost: float

    def __repr__(self) -> str:
        return f"Finish({str(self.entry)!r}, fence={self.fence}, bytes={len(self.data)})"


class Abandon(NamedTuple):
    """A request to end a refresh lease without a value.

    ``pause``: seconds in which no caller gets the refresh lease; each gets ``reason`` as the answer
    (a cached failure). 0: there is no pause, and another caller can get the lease at once.
    ``memory``: seconds for which the store counts the failure as one of several in a row.
    ``suspect``: True if a copy of the request for the refresh lease can still arrive.
    """

    entry: Entry
    id: str
    lease: float
    pause: float = 0.0
    memory: float = 0.0
    reason: str = ""
    suspect: bool = False

    def __repr__(self) -> str:
        return f"Abandon({str(self.entry)!r}, pause={self.pause})"

    @property
    def name(self) -> str:
        """The entry, as text for messages."""
        return str(self.entry)

    @property
    def ttl(self) -> float:
        """Length of the refresh lease that this request ends, in seconds."""
        return self.lease


class Prolong(NamedTuple):
    """A request to renew a refresh lease."""

    entry: Entry
    id: str
    fence: int
    lease: float

    def __repr__(self) -> str:
        return f"Prolong({str(self.entry)!r}, fence={self.fence}, lease={self.lease})"


class GuardCounts(NamedTuple):
    """The counts of a guard.

    ``hits``: calls that found a fresh value; ``near``: hits in the local cache of the process;
    ``stale``: calls that got an old value; ``misses``: calls that found no value to serve;
    ``computes``: values that were computed; ``waits``: calls that waited for another caller's
    value; ``merged``: calls that shared the answer of another call in the same process;
    ``failures``: computations that raised; ``refused``: values that came too late to be stored.
    """

    hits: int = 0
    near: int = 0
    stale: int = 0
    misses: int = 0
    computes: int = 0
    waits: int = 0
    merged: int = 0
    failures: int = 0
    refused: int = 0

    def plus(self, other: GuardCounts) -> GuardCounts:
        """Return the sums of both."""
        return GuardCounts(*(a + b for a, b in zip(self, other, strict=True)))


class GuardRecord(NamedTuple):
    """A guard, for display. ``tally``: the sums of the counts that its clients have reported."""

    name: str
    tally: GuardCounts


class EntryState(enum.StrEnum):
    """The state of an entry's value."""

    FRESH = "fresh"
    STALE = "stale"
    EXPIRED = "expired"
    MISSING = "missing"


class EntryRecord(NamedTuple):
    """An entry, for display. Seconds are by the store's clock.

    ``owner`` computes the next value, and its lease expires in ``lease_in``. ``failures``: failed
    computations in a row; the last one failed for ``reason``, and no caller tries again for
    ``pause_in`` seconds.
    """

    entry: Entry
    state: EntryState
    size: int = 0
    fresh_in: float = 0.0
    stale_in: float = 0.0
    cost: float = 0.0
    version: int = 0
    owner: str = ""
    lease_in: float = 0.0
    failures: int = 0
    pause_in: float = 0.0
    reason: str = ""
