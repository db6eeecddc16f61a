"""The rows of the database of queues, as the verbs use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

#: The low bits of a job's number are the job's place in its queue; the bits above are the queue's
#: id.
SEQ_BITS = 40
#: A queue has two orders of due jobs: one of the groups, one of the ungrouped jobs.
GROUPED, PLAIN = 0, 1


@dataclass(slots=True)
class QueueRow:
    """A queue; changed in memory, and written once at the end of a transaction."""

    id: int
    name: str
    seq: int = 0
    fence: int = 0
    #: The order of due jobs that the next take serves first.
    turn: int = GROUPED
    next_start: float = 0.0
    used: float = 0.0
    waiting: int = 0
    taken: int = 0
    dead: int = 0
    groups: int = 0
    accepted: int = 0
    done: int = 0

    def values(self) -> tuple[Any, ...]:
        """All columns in order."""
        pace = (self.seq, self.fence, self.turn, self.next_start, self.used)
        counts = (self.waiting, self.taken, self.dead, self.groups, self.accepted, self.done)
        return self.id, self.name, *pace, *counts

    def range(self) -> tuple[int, int]:
        """Return the first and the last number that a job of this queue can have."""
        return self.id << SEQ_BITS, (self.id + 1 << SEQ_BITS) - 1

    def next_job(self) -> int:
        """The number of a new job, greater than any before."""
        self.seq += 1
        return (self.id << SEQ_BITS) + self.seq

    def next_fence(self, now: float) -> int:
        """Return a fence greater than all earlier ones, even if a power cut lost the last ones."""
        self.fence = max(self.fence + 1, int(now * 1e6))
        return self.fence

    def lane(self, grp: int) -> int:
        """Return the number of the order for jobs of a group; ``grp`` is 0 for an ungrouped job."""
        return self.id * 2 + (GROUPED if grp else PLAIN)


class Loan(NamedTuple):
    """A delivery, which is a job that was taken and isn't settled."""

    job: int
    queue: int
    grp: int
    take: str
    fence: int
    expires: float
    attempt: int
    #: Seconds for which the group rests after the end of the delivery; None if it doesn't rest.
    rest: float | None
    #: `last`: the number of the last allowed attempt. `blocks`: 1 if a dead letter blocks its
    #: group.
    last: int
    blocks: int
    owner: str
    session: str
