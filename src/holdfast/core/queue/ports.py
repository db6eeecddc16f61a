"""The contract of a store that has serial queues; ``stores/memory/jobs.py`` defines each verb.

As with the verbs of locks, a client can send a verb twice because its reply was lost; the second
request then changes nothing. A verb returns, or raises ``StoreUnavailable``, within ``within``
seconds. A store with queues sets ``queues`` in its ``Capabilities`` and is a `QueueStore`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from ...errors import NotSupported
from ..model import Gone, Held
from .model import Extend, JobRecord, JobState, Put, QueueLimits, QueueRecord, Settle, Take, Taken

if TYPE_CHECKING:
    from ..ports import Store


class Queues(Protocol):
    """The verbs of serial queues."""

    limits: QueueLimits

    async def put(self, put: Put, within: float) -> list[bool]:
        """Accept all jobs, in order; return True for each new job. A job is not new if the caller
        chose its id and the store still remembers that id.

        A request that repeats the number of its producer (``lane``) gets the reply of the first
        request. A request with a lower number is a late copy: it changes nothing and raises
        `StoreUnavailable`. One waiter is woken for each group that becomes due.
        """
        ...

    async def take(self, take: Take, within: float) -> Taken:
        """Return up to ``most`` deliveries, the longest due first, at most one of each group.

        A repeated request with the same id returns the deliveries of that id that are not settled,
        and takes no more. The fence of a delivery is greater than all earlier fences of its group;
        for an ungrouped job, it is greater than all earlier fences of this job. Before jobs are
        taken, deliveries whose leases have expired are ended: such a job stays first in its group,
        or is a dead letter after its last attempt.
        """
        ...

    async def give_back(self, take: Take, within: float) -> int:
        """Release the deliveries of this take, as if the take had taken nothing; return their
        number. A late copy of the take gets nothing and doesn't wait. If this take can have
        received the wake-up for a due job, another waiter is woken."""
        ...

    async def settle(self, settles: Sequence[Settle], within: float) -> list[bool | Exception]:
        """Settle a batch of deliveries, each as if it were alone; return one answer for each.

        True: the settle counts. False: the lease has expired, or the delivery was settled before.
        ``LockLost``: the delivery was lost before its lease expired. (The answer isn't False, which
        for a repeated request would mean that the first request settled the delivery.) One waiter
        is woken for each group that becomes due.
        """
        ...

    async def extend(
        self, extends: Sequence[Extend], within: float
    ) -> list[Held | Gone | Exception]:
        """Renew a batch of leases; return one answer for each. An expired lease is ``Gone``,
        permanently."""
        ...

    async def wait(self, take: Take, seconds: float) -> bool:
        """Sleep until a wake-up (True), or until ``seconds`` have passed (False). A wake-up means
        that a job can be due. A false wake-up is allowed; a lost wake-up costs at most
        ``seconds``."""
        ...

    def unlisten(self, take: Take) -> None:
        """End the wait of this take. Never fails, never suspends."""
        ...

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[QueueRecord]:
        """Return the queues whose name begins with ``prefix`` (``exact``: equals it), sorted by
        name."""
        ...

    async def jobs(
        self, queue: str, state: JobState | None, group: str | None, most: int, within: float
    ) -> list[JobRecord]:
        """Return at most ``most`` jobs of a queue, in the order of acceptance: only jobs in this
        state or of this group, unless these are None."""
        ...

    async def letters(self, queue: str, within: float) -> list[str]:
        """Return the ids of all dead letters; within a group, in the order in which they died."""
        ...

    async def revive(self, queue: str, ids: Sequence[str] | None, within: float) -> int:
        """Retry the dead letters with these ids (None: up to 1,000 of all); return their number. A
        dead letter that blocks its group keeps its position there. The other letters go to the end
        of their groups, in the order in which they died. Their attempts count from the start."""
        ...

    async def purge(
        self,
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        within: float,
    ) -> int:
        """Remove at most ``most`` jobs, in the order of acceptance; return their number.

        ``state``: only jobs in this state; None: in each state except taken. ``ids``: only these
        jobs, unless None. A store may remove fewer jobs than requested, but at least 1,000; the
        caller repeats the request for the rest.
        """
        ...


class Onward(Protocol):
    """An optional verb of queues: settle a delivery and take the next one."""

    async def settle_and_take(
        self, settles: Sequence[Settle], take: Take, within: float
    ) -> tuple[list[bool | Exception], Taken]:
        """Settle, then take the jobs that are due at that time, in one round trip; return both
        replies. The take doesn't wait. After `StoreUnavailable`, the outcome of both is unknown."""
        ...


class QueueStore(Protocol):
    """A store that has queues as well as locks."""

    queues: Queues


def queues_of(store: Store) -> Queues:
    """Return the queues of a store; `NotSupported` if the store has none."""
    if not store.capabilities.queues:
        raise NotSupported(
            f"{store.label} has no serial queues; take a store that does, such as sqlite "
            "(see Client.supports('queues'))"
        )
    return cast("QueueStore", store).queues


def onward_of(queues: Queues) -> Onward | None:
    """Return these queues if they can settle and take in one request; else None."""
    return cast("Onward", queues) if hasattr(queues, "settle_and_take") else None


def barred_of(queues: Queues) -> str:
    """Return the reason why the latest take got nothing although jobs can be due: the store grants
    nothing for a while. Otherwise return an empty text."""
    return getattr(queues, "barred", "")
