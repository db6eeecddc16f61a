"""Data types of serial queues: puts, deliveries and their outcomes.

A **job** is put into a queue, in a **group** or in the **plain lane** (no group). Jobs of one group
are delivered one at a time, in the order in which the store accepted them; jobs of the plain lane
and of different groups run side by side. A **delivery** is a job on loan: it has a lease, and until
that ends nobody else gets the job or another one of its group. Whoever has it **settles** it.

Everything here is immutable. ``Take.id`` is a secret of 128 random bits, chosen before the first
byte is sent: a process that knows it has the deliveries, so it never shows in a ``repr``.
"""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

from ...errors import ConfigError

# Limits, with the unit in the name. A store with lower ones says so in its `QueueLimits`.
JOB_ID_BYTES_MAX = 256
GROUP_BYTES_MAX = 256
PAYLOAD_BYTES_MAX = 256 * 1024
REASON_BYTES_MAX = 1024
BATCH_MAX = 1000
DELAY_S_MAX = 366 * 86_400.0
INTERVAL_S_MAX = 86_400.0
WINDOW_S_MAX = 30 * 86_400.0
RATE_MAX = 1_000_000.0
ATTEMPTS_MAX = 1_000_000


class QueueLimits(NamedTuple):
    """What a store takes in. ``depth``: jobs in one queue."""

    payload_bytes: int = PAYLOAD_BYTES_MAX
    depth: float = math.inf


class Job(NamedTuple):
    """What is put: its key against duplicates, its group (``""``: the plain lane), its content.

    ``known``: the caller chose the id, so a second job with it is a duplicate. ``delay`` are
    seconds before which it isn't delivered; it holds back the jobs behind it in its group.
    """

    id: str
    group: str
    payload: bytes
    delay: float = 0.0
    known: bool = False


class TooLarge(ConfigError):
    """These jobs are too much for one request to the store, which has none of them: some of them
    at a time may not be."""


class Put(NamedTuple):
    """A request to accept jobs, all or none, in this order.

    ``lane`` and ``number`` tell a repetition from a new request: a lane is used by one request at
    a time, each with the next number. ``window``: seconds for which a known id is remembered after
    it was accepted, or for longer while its job is still there.
    """

    queue: str
    lane: str
    number: int
    jobs: tuple[Job, ...]
    window: float


class Start(enum.StrEnum):
    """From when on ``min_interval`` counts: the safe way is the end of the last execution."""

    ACK = "ack"
    TAKE = "take"


class Pace(NamedTuple):
    """How fast a queue is worked on, over all workers, by the store's clock.

    ``min_interval``: seconds between two executions in one group. ``rate``: deliveries per second
    in the whole queue, ``inf`` for any number.
    """

    min_interval: float = 0.0
    start: Start = Start.ACK
    rate: float = math.inf


class Patience(NamedTuple):
    """What becomes of a job that fails: after ``attempts`` deliveries it is a dead letter.

    ``blocks``: a dead letter holds back its group until somebody retries or removes it; else the
    group continues without it.
    """

    attempts: int = 10
    blocks: bool = False


class Take(NamedTuple):
    """A request for up to ``most`` deliveries that are due, each of another group.

    They have a lease of ``ttl`` seconds, and the pace and the waiter TTL stay with them: if the
    worker dies, the store acts by them. ``wait``: with nothing due, it waits to be woken; asked
    again without, it waits no more.
    """

    queue: str
    id: str
    most: int
    ttl: float
    owner: str
    pace: Pace
    patience: Patience
    wait: bool = False

    @property
    def suspect(self) -> bool:
        """As an undo: a copy of it that comes late is always reckoned with."""
        return True

    @property
    def name(self) -> str:
        """What it is about, in a message."""
        return self.queue

    def __repr__(self) -> str:
        return f"Take({self.queue!r}, most={self.most}, ttl={self.ttl}, owner={self.owner!r})"


class Delivered(NamedTuple):
    """One job on loan. ``seq`` is its place in the order of acceptance, ``attempt`` counts from 1,
    ``age`` are the seconds since it was accepted."""

    seq: int
    id: str
    group: str
    payload: bytes
    attempt: int
    fence: int
    age: float


class Taken(NamedTuple):
    """What a take got. ``retry_in``: with nothing taken, seconds until more may be due."""

    deliveries: tuple[Delivered, ...]
    retry_in: float


class Verdict(enum.StrEnum):
    """What becomes of a delivery."""

    ACK = "ack"
    RETRY = "retry"
    DEAD = "dead"
    #: As if it had not been taken: the attempt doesn't count.
    RETURN = "return"


class Settle(NamedTuple):
    """A request to settle one delivery, named by the secret of its take.

    ``delay``: for ``RETRY``, seconds until its next attempt. ``reason``: for ``DEAD`` and
    ``RETRY``, text for people. ``suspect``: the take was sent twice, so a late copy of it may still
    arrive, and must then get nothing.
    """

    queue: str
    group: str
    seq: int
    take: str
    verdict: Verdict
    delay: float = 0.0
    reason: str = ""
    ttl: float = 30.0
    suspect: bool = False

    @property
    def name(self) -> str:
        """What it is about, in a message."""
        return self.queue

    def __repr__(self) -> str:
        return f"Settle({self.queue!r}, {self.group!r}, seq={self.seq}, {self.verdict})"


class Extend(NamedTuple):
    """A request to prolong the lease of one delivery: ``ttl`` seconds from now."""

    queue: str
    group: str
    seq: int
    take: str
    fence: int
    ttl: float

    def __repr__(self) -> str:
        return f"Extend({self.queue!r}, {self.group!r}, seq={self.seq}, ttl={self.ttl})"


class JobState(enum.StrEnum):
    """Where a job stands: due or behind others, not due yet, on loan, or given up."""

    WAITING = "waiting"
    DELAYED = "delayed"
    TAKEN = "taken"
    DEAD = "dead"


class JobRecord(NamedTuple):
    """One job as people see it; times are seconds, by the store's clock.

    ``payload``: the bytes in the store, which are JSON unless bytes were put. ``group``: empty for
    a job without one.
    ``due_in``: when a job that is delayed, or is to be tried again, may be delivered; 0 if nothing
    but its group holds it back. ``expires_in``: what is left of the lease of one that is taken.
    """

    id: str
    group: str
    state: JobState
    payload: bytes
    attempts: int
    age: float
    due_in: float = 0.0
    expires_in: float = 0.0
    owner: str = ""
    reason: str = ""


class QueueRecord(NamedTuple):
    """One queue as people see it: how many jobs stand where.

    ``waiting`` has all that are neither taken nor dead, those that are delayed too. ``oldest`` is
    the age of the job that waits longest, 0 if none does. ``accepted`` and ``done`` count since the
    queue came into being.
    """

    name: str
    waiting: int
    taken: int
    dead: int
    groups: int
    oldest: float
    accepted: int
    done: int
