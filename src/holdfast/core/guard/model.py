"""Data types of the refresh guard: entries, values, refresh leases, requests and replies.

A **guard** has **entries**, told apart by a key; each has at most one **value** and at most one
**refresh lease**: the lease of the one caller in the whole cluster that computes the next value. A
value is *fresh* for its ``ttl``, then *stale* for a while, in which it may be served while somebody
computes the next one, and then, if the guard wants it, a *last resort*.

Everything here is immutable. ``Wish.id`` is a secret of 128 random bits, chosen before the first
byte is sent: a process that knows it has the refresh lease, so it never shows in a ``repr``.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

# Limits, with the unit in the name. A store with lower ones says so in its `GuardLimits`.
KEY_BYTES_MAX = 512
VALUE_BYTES_MAX = 1024 * 1024
REASON_BYTES_MAX = 1024
ENTRIES_MAX = 1000
VALUE_S_MAX = 366 * 86_400.0
#: The numbers of a guard are forgotten if nothing has been added to them for this number of
#: seconds.
TALLY_KEPT_S = 7 * 86_400.0


class GuardLimits(NamedTuple):
    """What a store takes in: the bytes of one value."""

    value_bytes: int = VALUE_BYTES_MAX


class Entry(NamedTuple):
    """Which value: the guard and the key (``""``: the guard has only one)."""

    guard: str
    key: str

    def __str__(self) -> str:
        return f"{self.guard}/{self.key}" if self.key else self.guard


class Value(NamedTuple):
    """What is kept, and how old it is by the store's clock.

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
    of a value that is to be replaced although it is fresh; 0 for none. ``wait``: wake us when there
    is a value, or nobody has the refresh lease any more.
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
        """What it is about, in a message."""
        return str(self.entry)


class Duty(NamedTuple):
    """The answer "you compute it": under this fence, for the seconds of the lease unless renewed.
    ``failures``: how often in a row it was computed without success."""

    fence: int
    expires_in: float
    failures: int = 0


class Busy(NamedTuple):
    """The answer "another caller computes it": the seconds until its lease expires."""

    retry_in: float


class Failing(NamedTuple):
    """The answer "it was computed without success, and is not to be tried again for so long"."""

    retry_in: float
    reason: str


#: What a `Wish` is answered with: a `Value` is fresh, and not the one that is known.
Begun = Duty | Busy | Failing | Value


class Finish(NamedTuple):
    """A request to store the value of a refresh lease, and to end it.

    It is fresh for ``ttl`` seconds, may be served for ``stale`` more, and is kept for ``keep``
    beyond that.
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
    """A request to give a refresh lease up without a value.

    ``pause``: for so many seconds nobody else gets it (a failure that is cached), and ``reason``
    is what they are told; 0: somebody else gets it at once. ``memory``: for so many seconds the
    failure counts as one in a row. ``suspect``: may the request for the refresh lease be still
    under way?
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
        """What it is about, in a message."""
        return str(self.entry)

    @property
    def ttl(self) -> float:
        """Length of the lease that it releases, in seconds."""
        return self.lease


class Prolong(NamedTuple):
    """A request to renew the lease of a refresh lease."""

    entry: Entry
    id: str
    fence: int
    lease: float

    def __repr__(self) -> str:
        return f"Prolong({str(self.entry)!r}, fence={self.fence}, lease={self.lease})"


class Tally(NamedTuple):
    """How often what happened. ``hits``: a fresh value was there, ``near`` of them in this
    process; ``stale``: an old one was served; ``misses``: there was none to serve; ``computes``:
    values that were computed; ``waits``: calls that waited for another's; ``merged``: calls that
    were answered by what another call of the same process had asked; ``failures``: computations
    that raised; ``refused``: values that came too late to be stored."""

    hits: int = 0
    near: int = 0
    stale: int = 0
    misses: int = 0
    computes: int = 0
    waits: int = 0
    merged: int = 0
    failures: int = 0
    refused: int = 0

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))


class GuardRecord(NamedTuple):
    """A guard as people see it: the sums of what all its clients have told so far."""

    name: str
    tally: Tally


class EntryState(enum.StrEnum):
    """How the value of an entry stands."""

    FRESH = "fresh"
    STALE = "stale"
    EXPIRED = "expired"
    MISSING = "missing"


class EntryRecord(NamedTuple):
    """An entry as people see it. Seconds by the store's clock; ``owner`` computes the next value,
    and its lease has expired in ``lease_in``; ``failures`` in a row, the last for this ``reason``,
    and for ``pause_in`` seconds nobody tries again."""

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
