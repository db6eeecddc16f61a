"""When each lease is to be renewed.

Leases of one length are renewed in the order in which they came, so each length has a queue of
its own and the next one due is at the head of one of them: adding, dropping and finding the next
are O(1). (An OrderedDict: a plain dict that is emptied from its front looks through every place
that it has lost before it finds its head.) What has a time of its own, a retry or a deadline that
is watched, stands in a heap.

The keeper alone takes out; any thread may add and drop meanwhile.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Iterator
from operator import attrgetter

from .lease import Lease

#: What is due within so much of its pause between two renewals goes into a batch that is sent
#: anyway, or makes up a whole one while the keeper is awake. So renewals gather in full batches,
#: stay together from then on, and the keeper is seldom woken.
EARLY_PART = 0.05
#: What is to be tried again so soon goes along with whatever is sent.
RETRY_SOON_S = 0.5

_Queue = OrderedDict[Lease, None]
_deadline = attrgetter("deadline")


class Schedule:
    """The leases of one client, each with the moment at which the keeper must look at it."""

    __slots__ = ("_own", "_queues", "_tie")

    def __init__(self) -> None:
        self._queues: dict[float, _Queue] = {}
        #: (when, tie-break, lease): retries, watched deadlines.
        self._own: list[tuple[float, int, Lease]] = []
        self._tie = itertools.count()

    def __len__(self) -> int:
        return sum(map(len, list(self._queues.values()))) + len(self._own)

    def add(self, lease: Lease, due: float) -> None:
        """Behind all others of its length; nothing may be due later than ``due`` there."""
        lease.due = due
        try:
            self._queues[lease.every][lease] = None
        except KeyError:
            self._queues.setdefault(lease.every, OrderedDict())[lease] = None
        if lease.closing:  # released just now, by another thread
            self.drop(lease)

    def add_renewed(self, leases: list[Lease], sent: float) -> None:
        """The same for all that were renewed by one request."""
        every = due = -1.0
        queue: _Queue = OrderedDict()
        for lease in leases:
            if lease.every != every:
                every = lease.every
                due = sent + every
                queue = self._queues.setdefault(every, OrderedDict())
            lease.due = due
            queue[lease] = None
            if lease.closing:
                self.drop(lease)

    def add_own(self, lease: Lease, due: float) -> None:
        """At a time of its own, whatever its length is."""
        lease.due = due
        heapq.heappush(self._own, (due, next(self._tie), lease))

    def drop(self, lease: Lease) -> None:
        """Out of the queue of its length; in the heap it stays, and is passed over."""
        queue = self._queues.get(lease.every)
        if queue is not None:
            queue.pop(lease, None)
        lease.renewing = lease.renewing and not lease.closing

    def soonest(self) -> Iterator[float]:
        """The next moment of each kind, in no order."""
        for queue in list(self._queues.values()):
            first = _head(queue)
            if first is not None:
                yield first.due
        if self._own:
            yield self._own[0][0]

    def take(self, now: float, most: int, batch: list[Lease]) -> None:
        """Move into this batch what is due, nearest deadline first.

        What will be due soon goes with it if the batch is sent anyway, or full by that: it is
        filled up to ``most``, which only retries may exceed.
        """
        self._take_own(now, batch)
        queues = list(self._queues.items())
        if batch or any(_worth_it(queue, now, every, most) for every, queue in queues):
            for every, queue in queues:
                _fill(batch, queue, now + every * EARLY_PART, most)
            # Else what only pauses would wait until this batch is answered, which may take long.
            self._take_own(now + RETRY_SOON_S, batch)
        batch.sort(key=_deadline)

    def _take_own(self, now: float, batch: list[Lease]) -> None:
        own = self._own
        while own and own[0][0] <= now:
            lease = heapq.heappop(own)[2]
            lease.watched = False
            if lease.end is None and not lease.closing:
                batch.append(lease)

    def in_trouble(self, now: float) -> bool:
        """Is a renewal that failed to be tried again soon?"""
        own = self._own
        return bool(own) and own[0][2].failures > 0 and own[0][0] <= now + RETRY_SOON_S

    def hasten(self, now: float) -> None:
        """Everything that is renewed is due now."""
        for queue in list(self._queues.values()):
            for _ in range(len(queue)):
                lease = _head(queue)
                if lease is None:
                    break
                if queue.pop(lease, lease) is None and not lease.closing:
                    self.add_own(lease, now)
        early = [(now, tie, lease) for _, tie, lease in self._own if lease.renewing]
        self._own = early + [entry for entry in self._own if not entry[2].renewing]
        heapq.heapify(self._own)

    def empty(self) -> list[Lease]:
        """Take out everything."""
        queues, own = self._queues, self._own
        self._queues, self._own = {}, []
        return [lease for queue in queues.values() for lease in list(queue)] + [
            entry[2] for entry in own
        ]


def _head(queue: _Queue) -> Lease | None:
    while queue:
        try:
            return next(iter(queue))
        except (StopIteration, RuntimeError):
            continue  # another thread changed it just then
    return None


def _worth_it(queue: _Queue, now: float, every: float, most: int) -> bool:
    """Is its head due, or are there enough to fill a batch that are so soon?"""
    first = _head(queue)
    if first is None or first.due > now + every * EARLY_PART:
        return False
    if first.due <= now:
        return True
    if len(queue) < most:
        return False
    try:
        return next(itertools.islice(queue, most - 1, None)).due <= now + every * EARLY_PART
    except (StopIteration, RuntimeError):
        return True  # another thread changed it just then


def _fill(batch: list[Lease], queue: _Queue, soon: float, most: int) -> None:
    """Move what is due until then to the end of the batch, as far as it has room."""
    while queue and len(batch) < most:
        try:
            first = list(itertools.islice(queue, most - len(batch)))
        except RuntimeError:
            continue  # another thread changed it just then
        for lease in first:
            if lease.due > soon:
                return
            if queue.pop(lease, lease) is None and not lease.closing:
                batch.append(lease)
