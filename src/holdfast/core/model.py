"""Data types: the claim, the replies of a store, and the records that listings show.

All types here are immutable and independent of how a store keeps or sends them. A claim's ``id`` is
a secret of 128 random bits, chosen before the first byte is sent. Any process that has the id can
renew and release the claim. So no ``repr`` contains it. The *fence* (the ticket of a held claim) is
public: hand it to every resource that the lock protects.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

# Limits, with the unit in the name. A store accepts everything within these limits.
NAME_BYTES_MAX = 512
OWNER_BYTES_MAX = 256
META_BYTES_MAX = 4096
TTL_S_MIN = 0.010
TTL_S_MAX = 86_400.0
WAITERS_MAX = 10_000
#: Capacity of a read-write lock: a reader weighs 1, a writer weighs the whole capacity.
RWLOCK_CAPACITY = 1 << 20
#: The suffix of the owner of a detached hold. Listings and errors show it.
DETACHED = " (detached: no process renews it)"
PERMITS_MAX = RWLOCK_CAPACITY


class Kind(enum.StrEnum):
    """The kind of a name. A name has one kind at a time. A claim of another kind is refused; the
    error names both kinds."""

    LOCK = "lock"
    SEMAPHORE = "semaphore"
    RWLOCK = "rwlock"
    ELECTION = "election"


class Spec(NamedTuple):
    """The request of a claim. A lock object makes one `Spec`, and all its claims share it."""

    name: str
    kind: Kind
    capacity: int
    weight: int
    ttl: float
    owner: str
    meta: str = ""


class Claim(NamedTuple):
    """One attempt to hold. The id is secret and is chosen before anything is sent."""

    id: str
    spec: Spec

    def __repr__(self) -> str:
        s = self.spec
        return f"Claim({s.name!r}, {s.kind}, {s.weight}/{s.capacity}, owner={s.owner!r})"


class _Renewal(NamedTuple):
    """The fields of a `Renewal`."""

    claim: Claim
    ticket: int
    ttl: float
    weight: int = 0


class Renewal(_Renewal):
    """A request to renew one held claim; its sender believes that the claim is held.

    ``ttl``: the requested lease in seconds. ``weight``: the smaller weight after a downgrade; 0
    changes nothing. The same object is sent repeatedly. ``ready`` belongs to the store: data that
    it prepared for the first sending and uses again. A copy of the object has none.
    """

    ready: Any = None

    def __repr__(self) -> str:
        return f"Renewal({self.claim!r}, ticket={self.ticket}, ttl={self.ttl})"


class Change(NamedTuple):
    """A request to renew one held claim and to change its secret or its owner in the same step.

    ``new_id``: the secret that replaces the old one; the owner is replaced as well (adopt). If
    ``new_id`` equals the old secret, only the owner is replaced (detach). If it is empty, neither
    is. ``detach``: the death of this process no longer ends the claim, which lasts for its ttl.
    """

    claim: Claim
    ticket: int
    ttl: float
    new_id: str = ""
    detach: bool = False

    def __repr__(self) -> str:
        return f"Change({self.claim!r}, ticket={self.ticket}, ttl={self.ttl})"


class Leave(NamedTuple):
    """A request to withdraw or release the claim with this secret ``id``; ``ticket`` is a hint.

    ``after``: the name stays occupied for these seconds (min_hold). ``suspect``: a join of this
    claim was repeated or its outcome is unknown, so a late copy of the join can still arrive. The
    store then keeps a tombstone, for ``ttl`` and `TOMB_S` more seconds. With the tombstone, the
    store refuses the copy, and answers a renewal of the claim with ``Loss.RELEASED``.
    """

    name: str
    id: str
    ticket: int
    after: float = 0.0
    suspect: bool = False
    ttl: float = 30.0

    def __repr__(self) -> str:
        return f"Leave({self.name!r}, ticket={self.ticket}, after={self.after})"


class Held(NamedTuple):
    """The claim is held: its fence, and the seconds for which the store keeps it without
    renewal."""

    fence: int
    expires_in: float


class Waiting(NamedTuple):
    """The claim is in the line, behind at most ``position`` claims; ask again in ``retry_in`` s.

    ``watch`` is data of the store for its own ``wait``, such as the sessions whose end it must
    notice.
    """

    ticket: int
    position: int
    retry_in: float
    watch: tuple[str, ...] = ()


class Refused(NamedTuple):
    """The name is not free, and the join does not wait. ``holder``: the owner of a claim ahead,
    for the message."""

    retry_in: float
    holder: str


class Gone(NamedTuple):
    """The claim is not in the line: it expired, was broken, or was never there."""

    reason: Loss


class Mismatch(NamedTuple):
    """The name is in use as another kind, or with another capacity."""

    kind: str
    capacity: int


class Full(NamedTuple):
    """The line of claims has its maximum length."""

    waiters: int


class Granted(NamedTuple):
    """A push: a release made this claim a holder. The push doesn't extend a lease."""

    fence: int


Standing = Held | Waiting | Gone
Joined = Held | Waiting | Refused | Mismatch | Full | Gone


class Loss(enum.StrEnum):
    """The reason why a hold ended before its client released it.

    ``RELEASED``: another process that has the token of the hold released it.
    """

    EXPIRED = "expired"
    BROKEN = "broken"
    RELEASED = "released"
    SESSION = "session lost"
    UNREACHABLE = "store unreachable until the deadline"
    MAX_HOLD = "max_hold reached"
    FORKED = "held by the parent process"
    CLOSED = "client closed"


class State(enum.StrEnum):
    """The state of a hold. ``JEOPARDY``: renewals fail, and the deadline is not reached yet."""

    HELD = "held"
    JEOPARDY = "jeopardy"
    LOST = "lost"
    RELEASED = "released"
    DETACHED = "detached"


class ClaimRecord(NamedTuple):
    """One claim, for `inspect`. ``age`` and ``expires_in`` are seconds, by the store's clock.

    ``fence`` identifies the claim for a break; on a store without fences it has no other use. A
    negative ``age`` means that the age is unknown. ``expires_in`` is ``inf`` if the claim never
    expires. ``kept``: the claim was released, but ``min_hold`` keeps its name occupied until it
    expires. No client renews it, and its process can have ended.
    """

    owner: str
    fence: int
    held: bool
    weight: int
    age: float
    expires_in: float
    position: int
    meta: str = ""
    kept: bool = False

    @property
    def detached(self) -> bool:
        """True for a detached hold: no client renews it, and its owner ends with `DETACHED`."""
        return self.held and not self.kept and self.owner.endswith(DETACHED)

    @property
    def who(self) -> str:
        """The owner without `DETACHED`."""
        return self.owner.removesuffix(DETACHED)


class LineRecord(NamedTuple):
    """One name, for `inspect`: its kind, and its claims in the order of the line."""

    name: str
    kind: str
    capacity: int
    claims: tuple[ClaimRecord, ...]

    @property
    def holders(self) -> tuple[ClaimRecord, ...]:
        """The held claims, in the order of their arrival."""
        return tuple(c for c in self.claims if c.held)

    @property
    def waiters(self) -> tuple[ClaimRecord, ...]:
        """The waiting claims, in the order in which they will be granted."""
        return tuple(c for c in self.claims if not c.held)


class Capabilities(NamedTuple):
    """The abilities of a store, as data that callers can read before they use it.

    ``semaphore``, ``rwlock``, ``election``, ``resize``, ``detach``, ``min_hold``, ``fences``,
    ``queues`` and ``guards`` name operations: if a field is False, its operation raises
    :class:`NotSupported`. The other fields describe how well the store works, for users and for the
    conformance tests.
    """

    store: str
    fair: bool = True
    semaphore: bool = True
    rwlock: bool = True
    election: bool = True
    resize: bool = True
    detach: bool = True
    min_hold: bool = True
    #: Does each grant have a fence, ``hold.fence``?
    fences: bool = True
    #: Does the store have serial queues, ``client.queue()``?
    queues: bool = False
    #: Does the store keep the values of refresh guards, ``client.guard()``?
    guards: bool = False
    #: Is the line of claims visible in `inspect`?
    visible_line: bool = True
    #: Are the owner of a claim and its ``meta`` visible in `inspect`?
    owners: bool = True
    #: Does a name have one kind at a time, so that a claim of another kind is refused?
    kinds: bool = True
    #: Does the store forget the number of a semaphore's permits when no client holds one?
    permits_reset_when_idle: bool = True
    wakes_waiters: bool = True
    #: Does a push make the waiter a holder? If not, a push only makes the waiter ask again.
    wakeup_grants: bool = True
    across_processes: bool = True
    durable_fences: bool = True
    #: Does the claim of a dead process end with its ttl? If not, the claim ends with the session of
    #: the process.
    own_expiry: bool = True
    crash_noticed: str = "ttl"
    clock: str = "store"
    #: The effect of a reentry on a hold that isn't renewed. ``"counted"``: the client only counts
    #: it. ``"prolongs"``: a request extends the hold to the ttl of the lock object that is entered.
    reentry: str = "counted"
