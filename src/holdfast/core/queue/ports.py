"""The contract of a store that has serial queues. What the verbs mean stands in
``stores/memory/jobs.py``.

As with the five verbs of locks, each verb may be sent twice because its reply was lost, and then
changes nothing the second time; it returns, or raises ``StoreUnavailable``, within ``within``
seconds. A store that has queues says ``queues`` in its ``Capabilities`` and is a `QueueStore`.
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
    """Where jobs are kept."""

    limits: QueueLimits

    async def put(self, put: Put, within: float) -> list[bool]:
        """Accept all jobs, in order; for each: is it new? A known id that is remembered is not.

        The same lane and number once more gives the answer of the first time; a lower number, a
        copy that comes late, changes nothing and is `StoreUnavailable`. Every waiter for a job
        that is due now is woken.
        """
        ...

    async def take(self, take: Take, within: float) -> Taken:
        """Up to ``most`` deliveries, the longest due first, at most one of each group.

        The same id once more gives those that are still on loan by it, and takes nothing more.
        Each has a fence greater than any that its group had (in the plain lane: its job). What
        was taken beyond its lease is taken back first: the same job stands first in its group,
        or is a dead letter if that was its last attempt.
        """
        ...

    async def give_back(self, take: Take, within: float) -> int:
        """Return whatever this take got, as if it had not been taken; how many. A copy of the
        take that arrives later gets nothing, and doesn't wait. If a wake-up for what is due may
        have gone to this take, another one who waits is woken."""
        ...

    async def settle(self, settles: Sequence[Settle], within: float) -> list[bool | Exception]:
        """Settle a batch, each as if it were alone: was it ours? False when its lease has expired,
        or when it was settled before; a ``LockLost`` when it is lost before the end of its lease,
        so that False would be taken for the latter by whoever asks again. Every waiter for a job
        that is due by this is woken."""
        ...

    async def extend(
        self, extends: Sequence[Extend], within: float
    ) -> list[Held | Gone | Exception]:
        """Prolong a batch of leases; what has expired is ``Gone`` and never comes back."""
        ...

    async def wait(self, take: Take, seconds: float) -> bool:
        """Sleep until a job may be due, or until ``seconds`` have passed; was it a wake-up? Waking
        for nothing is allowed, and losing a wake-up costs no more than ``seconds``."""
        ...

    def unlisten(self, take: Take) -> None:
        """Nobody waits by this take any more. Never fails, never suspends."""
        ...

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[QueueRecord]:
        """The queues whose name begins with ``prefix`` (or is it), sorted by name."""
        ...

    async def jobs(
        self, queue: str, state: JobState | None, group: str | None, most: int, within: float
    ) -> list[JobRecord]:
        """At most ``most`` jobs of a queue in the order of acceptance: all, or those of one state,
        or of one group."""
        ...

    async def letters(self, queue: str, within: float) -> list[str]:
        """The ids of all dead letters, those of a group in the order in which they died."""
        ...

    async def revive(self, queue: str, ids: Sequence[str] | None, within: float) -> int:
        """Try dead letters again: these, or up to 1,000 of all; how many. One that blocks its group
        continues where it stands, any other at the end of its group, and several of a group in the
        order in which they died; their attempts count from the start."""
        ...

    async def purge(
        self,
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        within: float,
    ) -> int:
        """Remove jobs that stand so (or all but those that are taken), or of these; how many. No
        more than ``most``, the first in the order of acceptance; a store may do some of them, at
        least 1,000, and is asked again for the rest. What is taken stays."""
        ...


class Onward(Protocol):
    """What queues may have besides: for whoever settles one delivery and wants the next."""

    async def settle_and_take(
        self, settles: Sequence[Settle], take: Take, within: float
    ) -> tuple[list[bool | Exception], Taken]:
        """Settle, then take what is due at that time, in one round trip: the answers to both. It is
        a take that doesn't wait. `StoreUnavailable`: it isn't known what was done of both."""
        ...


class QueueStore(Protocol):
    """A store that has queues, beside its lines."""

    queues: Queues


def queues_of(store: Store) -> Queues:
    """The queues of a store that says that it has some."""
    if not store.capabilities.queues:
        raise NotSupported(
            f"{store.label} has no serial queues; take a store that does, such as sqlite "
            "(see Client.supports('queues'))"
        )
    return cast("QueueStore", store).queues


def onward_of(queues: Queues) -> Onward | None:
    """The same queues, if they can settle and take at once."""
    return cast("Onward", queues) if hasattr(queues, "settle_and_take") else None


def barred_of(queues: Queues) -> str:
    """Why the latest take got nothing though jobs may be due, as the store grants nothing for a
    while; else empty."""
    return getattr(queues, "barred", "")
