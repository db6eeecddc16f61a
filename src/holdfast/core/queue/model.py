"""Data types of serial queues: puts, deliveries and their outcomes.

A **job** is put into a queue, in a **group** or **ungrouped**. Jobs of one group are delivered one
at a time, in the order in which the store accepted them; ungrouped jobs and jobs of different
groups are delivered in parallel. A **delivery** is a job that a worker has taken. It has a lease;
until the lease ends, no other worker gets this job or another job of its group. The worker
**settles** it.

All types here are immutable. ``Take.id`` is a secret of 128 random bits, chosen before the first
byte is sent. Any process that has the id can settle the deliveries, so no ``repr`` contains it.
"""

from __future__ import annotations

import enum
import math
from typing import NamedTuple

from ...errors import ConfigError

# Limits, with the unit in the name. A store with lower limits declares them in `QueueLimits`.
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
    """The limits of a store: ``payload_bytes``: bytes of one payload; ``depth``: jobs in one
    queue."""

    payload_bytes: int = PAYLOAD_BYTES_MAX
    depth: float = math.inf


class Job(NamedTuple):
    """A job to put: its id, its group (``""``: ungrouped) and its payload.

    ``known``: the caller chose the id, so a second job with this id is a duplicate. ``delay``:
    seconds before the job can be delivered; until then, later jobs of its group wait too.
    """

    id: str
    group: str
    payload: bytes
    delay: float = 0.0
    known: bool = False


class TooLarge(ConfigError):
    """These jobs are too large for one request; the store has accepted none of them. Smaller
    batches can succeed."""


class Put(NamedTuple):
    """A request to accept jobs, all or none, in this order.

    ``lane`` and ``number`` distinguish a repeated request from a new one: a producer (``lane``)
    sends one request at a time, each with the next number. ``window``: seconds after acceptance for
    which the store remembers a known id; it also remembers the id while the job is in the queue.
    """

    queue: str
    lane: str
    number: int
    jobs: tuple[Job, ...]
    window: float


class Start(enum.StrEnum):
    """``min_interval`` counts from the end of the last execution (safe), or from its start."""

    ACK = "ack"
    TAKE = "take"


class Pace(NamedTuple):
    """Limits on the speed of a queue, over all workers, by the store's clock.

    ``min_interval``: least seconds between two executions in one group. ``rate``: deliveries per
    second of the whole queue; ``inf``: no limit.
    """

    min_interval: float = 0.0
    start: Start = Start.ACK
    rate: float = math.inf


class Patience(NamedTuple):
    """The attempts of a failing job: after ``attempts`` deliveries it is a dead letter.

    ``blocks``: a dead letter holds back its group until it is retried or removed; otherwise the
    group continues without it.
    """

    attempts: int = 10
    blocks: bool = False


class Take(NamedTuple):
    """A request for up to ``most`` deliveries of due jobs, each of another group.

    The leases last ``ttl`` seconds. The store keeps ``pace`` and ``patience`` with the deliveries,
    and applies both if the worker dies. ``wait``: if no job is due, the take becomes a waiter that
    gets wake-ups, until the same take is sent without ``wait``.
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
        """True: a late copy of a take is always possible."""
        return True

    @property
    def name(self) -> str:
        """The name in messages: the queue."""
        return self.queue

    def __repr__(self) -> str:
        return f"Take({self.queue!r}, most={self.most}, ttl={self.ttl}, owner={self.owner!r})"


class Delivered(NamedTuple):
    """One delivery. ``seq``: the position of the job in the order of acceptance. ``attempt`` counts
    from 1. ``age``: seconds since acceptance."""

    seq: int
    id: str
    group: str
    payload: bytes
    attempt: int
    fence: int
    age: float


class Taken(NamedTuple):
    """The reply to a take. ``retry_in``: if nothing was taken, seconds until a job can be due."""

    deliveries: tuple[Delivered, ...]
    retry_in: float


class Verdict(enum.StrEnum):
    """The outcome of a delivery."""

    ACK = "ack"
    RETRY = "retry"
    DEAD = "dead"
    #: Release the delivery: the job is as before the take, and the attempt doesn't count.
    RETURN = "return"


class Settle(NamedTuple):
    """A request to settle one delivery, named by the secret of its take.

    ``delay``: for ``RETRY``, seconds until the next attempt. ``reason``: for ``DEAD`` and
    ``RETRY``, a human-readable text. ``suspect``: the take was sent twice, so a late copy of the
    take can still arrive; the store must then deliver nothing to it.
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
        """The name in messages: the queue."""
        return self.queue

    def __repr__(self) -> str:
        return f"Settle({self.queue!r}, {self.group!r}, seq={self.seq}, {self.verdict})"


class Extend(NamedTuple):
    """A request to renew the lease of one delivery: ``ttl`` seconds from now."""

    queue: str
    group: str
    seq: int
    take: str
    fence: int
    ttl: float

    def __repr__(self) -> str:
        return f"Extend({self.queue!r}, {self.group!r}, seq={self.seq}, ttl={self.ttl})"


class JobState(enum.StrEnum):
    """The state of a job. ``WAITING``: due, or behind another job of its group. ``DELAYED``: not
    due yet."""

    WAITING = "waiting"
    DELAYED = "delayed"
    TAKEN = "taken"
    DEAD = "dead"


class JobRecord(NamedTuple):
    """One job, for `inspect`; times are seconds, by the store's clock.

    ``payload``: the bytes in the store, which are JSON unless bytes were put. ``group``: empty for
    an ungrouped job. ``due_in``: seconds until a delayed or retried job can be delivered; 0 if only
    its group holds it back. ``expires_in``: the remaining lease of a taken job.
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
    """One queue, for `inspect`: the number of jobs in each state.

    ``waiting``: all jobs that are neither taken nor dead, including delayed ones. ``oldest``: the
    age of the job that has waited longest; 0 if no job waits. ``accepted`` and ``done`` count since
    the queue was created.
    """

    name: str
    waiting: int
    taken: int
    dead: int
    groups: int
    oldest: float
    accepted: int
    done: int
