"""Data types: the claim, the replies of a store, and the records that listings show.

Everything here is immutable and says nothing about how it is stored or sent. A claim's ``id``
is a secret of 128 random bits, chosen before the first byte is sent: a process that knows it owns
the claim. It therefore never shows in a ``repr``. The *fence* (the ticket of a claim that is held)
is public: hand it to every resource that the lock guards.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

# Limits, with the unit in the name. A store refuses nothing within them.
NAME_BYTES_MAX = 512
OWNER_BYTES_MAX = 256
META_BYTES_MAX = 4096
TTL_S_MIN = 0.010
TTL_S_MAX = 86_400.0
WAITERS_MAX = 10_000
#: Capacity of a read-write lock: a reader weighs 1, a writer all of it.
RWLOCK_CAPACITY = 1 << 20
#: The end of a detached hold's owner. Everybody who looks or waits is shown the owner.
DETACHED = " (detached: nobody renews it)"
PERMITS_MAX = RWLOCK_CAPACITY


class Kind(enum.StrEnum):
    """What a name is used as. One name is one kind at a time; mixing kinds is refused by name."""

    LOCK = "lock"
    SEMAPHORE = "semaphore"
    RWLOCK = "rwlock"
    ELECTION = "election"


class Spec(NamedTuple):
    """What somebody wants of a name: made once per lock object, shared by all its claims."""

    name: str
    kind: Kind
    capacity: int
    weight: int
    ttl: float
    owner: str
    meta: str = ""


class Claim(NamedTuple):
    """One attempt to hold. The id is secret and is fixed before anything is sent."""

    id: str
    spec: Spec

    def __repr__(self) -> str:
        s = self.spec
        return f"Claim({s.name!r}, {s.kind}, {s.weight}/{s.capacity}, owner={s.owner!r})"


class Keep(NamedTuple):
    """A request to keep one claim alive, or to change it while keeping it.

    ``ttl`` is the lease wanted if it is (or now becomes) held, in seconds. ``weight`` shrinks
    the claim (downgrade). ``new_id`` exchanges the secret and the owner: from then on only the new
    ones count (adopt); where it is the old secret, the owner alone is exchanged (detach).
    ``detach`` unties it from this process, so that it lives by its ttl alone.
    """

    claim: Claim
    ticket: int
    ttl: float
    weight: int = 0
    new_id: str = ""
    detach: bool = False

    def __repr__(self) -> str:
        return f"Keep({self.claim!r}, ticket={self.ticket}, ttl={self.ttl})"


class Renewal(Keep):
    """A keep that changes nothing, and is sent again and again, as the same object.

    ``ready`` is for the store to which it is sent: what it has prepared once, so that it need not
    do so each time. A copy comes without.
    """

    ready: Any = None


class Leave(NamedTuple):
    """A request to withdraw or release: by secret ``id``, or (break) by public ``ticket`` alone.

    ``after`` keeps the name occupied for that many seconds more (min_hold). ``suspect`` says
    that a join of this claim was retried or ended unknown, so a late copy of it may still
    arrive: the store leaves a tombstone that the copy will find. It says for ``ttl`` and a while
    that the claim was released (``Loss.RELEASED``), to whoever keeps it then.
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
    """The claim is held: its fence, and how many seconds the store will keep it unasked."""

    fence: int
    expires_in: float


class Waiting(NamedTuple):
    """The claim stands in line behind at most ``position`` others; ask again in ``retry_in`` s.

    ``watch`` is a note of the store to itself (whose death would matter); pass it to ``wait``.
    """

    ticket: int
    position: int
    retry_in: float
    watch: tuple[str, ...] = ()


class Refused(NamedTuple):
    """A try that would have had to wait. ``holder`` is somebody ahead, for the message."""

    retry_in: float
    holder: str


class Gone(NamedTuple):
    """The claim isn't in the line (any more): it expired, was broken, or never was there."""

    reason: Loss


class Mismatch(NamedTuple):
    """The name is in use as another kind, or with another capacity."""

    kind: str
    capacity: int


class Full(NamedTuple):
    """The line is as long as a line may be."""

    waiters: int


class Granted(NamedTuple):
    """A push: the one who left made this claim a holder. It says nothing about a lease."""

    fence: int


Standing = Held | Waiting | Gone
Joined = Held | Waiting | Refused | Mismatch | Full | Gone


class Loss(enum.StrEnum):
    """Why a hold ended without our release. ``RELEASED``: somebody else had its token."""

    EXPIRED = "expired"
    BROKEN = "broken"
    RELEASED = "released"
    SESSION = "session lost"
    UNREACHABLE = "store unreachable until the deadline"
    MAX_HOLD = "max_hold reached"
    FORKED = "held by the parent process"
    CLOSED = "client closed"


class State(enum.StrEnum):
    """Where a hold stands. ``JEOPARDY``: renewals fail, and the deadline isn't reached yet."""

    HELD = "held"
    JEOPARDY = "jeopardy"
    LOST = "lost"
    RELEASED = "released"
    DETACHED = "detached"


class ClaimRecord(NamedTuple):
    """One claim as people see it. ``age`` and ``expires_in`` are seconds, by the store's clock.

    ``fence`` names the claim to whoever wants to break it; on a store without fences it is a number
    that only does that. An ``age`` below zero isn't known; what never expires has ``inf``.
    ``kept`` is True for a claim that was released and keeps its name occupied until it expires, by
    ``min_hold``: nobody renews it, and its process may have ended.
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
        """Is it a hold that was detached? Then nobody renews it, and its owner says so."""
        return self.held and not self.kept and self.owner.endswith(DETACHED)

    @property
    def who(self) -> str:
        """The owner without the words that nobody renews its hold."""
        return self.owner.removesuffix(DETACHED)


class LineRecord(NamedTuple):
    """One name as people see it: what it is used as, and its claims in the order of the line."""

    name: str
    kind: str
    capacity: int
    claims: tuple[ClaimRecord, ...]

    @property
    def holders(self) -> tuple[ClaimRecord, ...]:
        """The claims that are held, first come first."""
        return tuple(c for c in self.claims if c.held)

    @property
    def waiters(self) -> tuple[ClaimRecord, ...]:
        """The claims that wait, in the order in which they will be served."""
        return tuple(c for c in self.claims if not c.held)


class Capabilities(NamedTuple):
    """What a store can do, as data that callers may read before asking.

    ``semaphore``, ``rwlock``, ``election``, ``resize``, ``detach``, ``min_hold``, ``fences``,
    ``queues`` and ``guards`` name operations: what is False raises :class:`NotSupported`. The other
    booleans are properties, and the words say how well it is done, for people and for the kit.
    """

    store: str
    fair: bool = True
    semaphore: bool = True
    rwlock: bool = True
    election: bool = True
    resize: bool = True
    detach: bool = True
    min_hold: bool = True
    #: Has each grant a fence, ``hold.fence``?
    fences: bool = True
    #: Has it serial queues, ``client.queue()``?
    queues: bool = False
    #: Does it keep the values of refresh guards, ``client.guard()``?
    guards: bool = False
    #: Do the waiters stand in a line that people can see?
    visible_line: bool = True
    #: Do people see the owner of a hold, and its note?
    owners: bool = True
    #: Is a name one kind at a time, and another one refused?
    kinds: bool = True
    #: Is the number of a semaphore's permits forgotten when nobody holds any?
    permits_reset_when_idle: bool = True
    wakes_waiters: bool = True
    #: Does a push make the waiter a holder? Else it only says that asking again is worth it.
    wakeup_grants: bool = True
    across_processes: bool = True
    durable_fences: bool = True
    #: Does the claim of a dead process end with its own ttl? Else with its session.
    own_expiry: bool = True
    crash_noticed: str = "ttl"
    clock: str = "store"
    #: What entering again does to a hold that isn't renewed: ``"counted"``, or ``"prolongs"`` it to
    #: the ttl of the lock that is entered, with a request.
    reentry: str = "counted"
