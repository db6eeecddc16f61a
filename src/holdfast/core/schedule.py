"""The schedule: the moment at which each lease is renewed.

Leases of one length are renewed in the order in which they were added. So there is one queue per
length, and the next lease that is due is at the head of a queue. To add, drop or find a lease costs
the same for any number of leases. A queue is an OrderedDict. A plain dict gets slow when entries
are removed at its front: to find the first entry, it scans the slots of all removed entries. A
lease that is due at a separate time, for a retry or because its deadline is watched, is in a heap.

Only the renewer takes leases that are due; any thread can add and drop leases at the same time.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from operator import attrgetter

from .lease import Lease

#: A lease may be renewed early, by this part of its renewal interval, if a batch is sent anyway, or
#: if such leases fill a batch. So batches are full, and the renewer rarely wakes.
EARLY_PART = 0.05
#: A retry that is due within this time, in seconds, joins any batch that is sent.
RETRY_SOON_S = 0.5

#: Entries of dropped leases are removed from the heap if there can be at least this number of them.
DEAD_MAX = 64
#: If there are more queues than this, the empty queues are removed.
LENGTHS_MAX = 64

_Queue = OrderedDict[Lease, None]
_Entry = tuple[float, int, Lease]
_deadline = attrgetter("deadline")


def _nothing() -> None:
    """The default of `crowd`: do nothing."""


class Schedule:
    """The leases of one client, each with the time at which the renewer must handle it."""

    __slots__ = ("_crowd", "_dead", "_new", "_own", "_queues", "_tie", "crowded")

    def __init__(self, crowd: Callable[[], object] = _nothing) -> None:
        #: Called when `crowded` becomes True; it wakes the renewer.
        self._crowd = crowd
        self._queues: dict[float, _Queue] = {}
        #: The heap of (when, tie-break, lease), for retries and watched deadlines. Only the renewer
        #: changes it; it moves entries here from `_new`, to which any thread adds. An entry is
        #: valid only if its lease is still due at exactly this time.
        self._own: list[_Entry] = []
        self._new: deque[_Entry] = deque()
        self._tie = itertools.count()
        #: The number of dropped leases that can be in the heap.
        self._dead = 0
        #: True if there are enough entries of ended leases, or enough queues, for a clean-up.
        self.crowded = False

    def __len__(self) -> int:
        queued = sum(map(len, list(self._queues.values())))
        return queued + len(self._own) + len(self._new)

    def __iter__(self) -> Iterator[Lease]:
        """Yield all leases; RuntimeError if another thread adds or drops a lease meanwhile."""
        for queue in list(self._queues.values()):
            yield from queue
        for entry in [*self._own, *self._new]:
            yield entry[2]

    def add(self, lease: Lease, due: float) -> None:
        """Add a lease at the end of the queue of its length.

        The caller ensures that no lease in this queue is due later than ``due``.
        """
        lease.due = due
        every, queues = lease.every, self._queues
        try:
            queue = queues[every]
            queue[lease] = None
            if queues[every] is not queue:
                self._add_again(lease, every)
        except KeyError:
            self._add_again(lease, every)
        if lease.closing:  # released just now, by another thread
            self.drop(lease)

    def _add_again(self, lease: Lease, every: float) -> None:
        """Add a lease whose queue was missing, or was just removed because it was empty."""
        queue = None
        while queue is None or self._queues.get(every) is not queue:
            queue = self._queue(every)
            queue[lease] = None

    def add_renewed(self, leases: list[Lease], sent: float) -> None:
        """Add all leases that one request renewed. Only for the renewer: no other thread removes
        empty queues, so the queue stays valid here."""
        every = due = -1.0
        queue: _Queue = OrderedDict()
        for lease in leases:
            if lease.every != every:
                every = lease.every
                due = sent + every
                queue = self._queue(every)
            lease.due = due
            queue[lease] = None
            if lease.closing:
                self.drop(lease)

    def _queue(self, every: float) -> _Queue:
        queues = self._queues
        queue = queues.setdefault(every, OrderedDict())
        if len(queues) > LENGTHS_MAX and not self.crowded:
            self.crowded = True
            self._crowd()
        return queue

    def add_own(self, lease: Lease, due: float) -> None:
        """Add a lease with a separate time, and remove it from the queue of its length.

        If the lease stayed in that queue, it would keep its position there after a renewal. Then
        due leases behind it would not be found.
        """
        queue = self._queues.get(lease.every)
        if queue is not None:
            queue.pop(lease, None)
        lease.due = due
        lease.own = True
        self._new.append((due, next(self._tie), lease))

    def drop(self, lease: Lease) -> None:
        """Remove a lease from the queue of its length. An entry in the heap stays until it is due
        or until a clean-up, but is no longer valid."""
        queue = self._queues.get(lease.every)
        if queue is not None:
            queue.pop(lease, None)
        lease.renewing = lease.renewing and not lease.closing
        if lease.own:
            lease.due = -math.inf
            self._dead = dead = self._dead + 1
            if dead >= DEAD_MAX and not self.crowded:
                self.crowded = True
                self._crowd()

    def soonest(self) -> Iterator[float]:
        """Yield the next due time of each queue, of the heap, and of each new entry, in no
        order."""
        for queue in list(self._queues.values()):
            first = _head(queue)
            if first is not None:
                yield first.due
        if self._own:
            yield self._own[0][0]
        for entry in self._new.copy():
            yield entry[0]

    def clear_away(self) -> None:
        """Remove invalid entries from the heap, and empty queues. Only for the renewer."""
        self.crowded, self._dead = False, 0
        self._sort_in()
        self._own = [entry for entry in self._own if _counts(entry)]
        heapq.heapify(self._own)
        for every, queue in list(self._queues.items()):
            if not queue:
                del self._queues[every]
                for lease in list(queue):  # a thread that already had the queue added it just now
                    self.add(lease, lease.due)

    def take(self, now: float, most: int, batch: list[Lease]) -> None:
        """Move the leases that are due into this batch, nearest deadline first.

        Leases that are due soon join the batch if it is sent anyway, or if they fill it. The batch
        is filled up to ``most``; only leases from the heap can exceed this.
        """
        self._take_own(now, batch)
        queues = list(self._queues.items())
        if batch or any(_worth_it(queue, now, every, most) for every, queue in queues):
            for every, queue in queues:
                _fill(batch, queue, now + every * EARLY_PART, most)
            # Otherwise a retry would wait for the answer to this batch, which can take long.
            self._take_own(now + RETRY_SOON_S, batch)
        batch.sort(key=_deadline)

    def _sort_in(self) -> None:
        new, own = self._new, self._own
        while new:
            heapq.heappush(own, new.popleft())

    def _take_own(self, now: float, batch: list[Lease]) -> None:
        self._sort_in()
        own = self._own
        while own and (own[0][0] <= now or not _counts(own[0])):
            entry = heapq.heappop(own)
            if _counts(entry):
                lease = entry[2]
                lease.watched = lease.own = False
                lease.due = -math.inf
                batch.append(lease)

    def in_trouble(self, now: float) -> bool:
        """Return True if a retry of a failed renewal is due soon."""
        self._sort_in()
        own = self._own
        return bool(own) and own[0][2].failures > 0 and own[0][0] <= now + RETRY_SOON_S

    def hasten(self, now: float) -> None:
        """Make all leases that are being renewed due now."""
        self._sort_in()
        for queue in list(self._queues.values()):
            for _ in range(len(queue)):
                lease = _head(queue)
                if lease is None:
                    break
                if queue.pop(lease, lease) is None and not lease.closing:
                    self.add_own(lease, now)
        for entry in self._own:
            if entry[2].renewing and _counts(entry):
                self.add_own(entry[2], now)

    def empty(self) -> list[Lease]:
        """Remove and return all leases."""
        queues, own, new = self._queues, self._own, self._new
        self._queues, self._own, self._new = {}, [], deque()
        return [lease for queue in queues.values() for lease in list(queue)] + [
            entry[2] for entry in [*own, *new] if _counts(entry)
        ]


def _counts(entry: _Entry) -> bool:
    """Return False if the lease of this entry has ended, or is due at another time."""
    when, _, lease = entry
    return lease.due == when and lease.end is None and not lease.closing


def _head(queue: _Queue) -> Lease | None:
    while queue:
        try:
            return next(iter(queue))
        except (StopIteration, RuntimeError):
            continue  # another thread changed the queue
    return None


def _worth_it(queue: _Queue, now: float, every: float, most: int) -> bool:
    """Return True if the head of the queue is due, or if leases due soon can fill a batch."""
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
        return True  # another thread changed the queue


def _fill(batch: list[Lease], queue: _Queue, soon: float, most: int) -> None:
    """Move leases that are due at ``soon`` or earlier to the batch, while it has room."""
    while queue and len(batch) < most:
        try:
            first = list(itertools.islice(queue, most - len(batch)))
        except RuntimeError:
            continue  # another thread changed the queue
        for lease in first:
            if lease.due > soon:
                return
            if queue.pop(lease, lease) is None and not lease.closing:
                batch.append(lease)
