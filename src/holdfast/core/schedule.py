"""The schedule: the moment at which each lease is renewed.

Leases of one length are renewed in the order in which they came, so each length has a separate
queue and the next one due is at the head of one of them: adding, dropping and finding the next are
O(1). (An OrderedDict: a plain dict that is emptied from its front looks through every place that it
has lost before it finds its head.) An entry with its own time, a retry or a deadline that is
watched, stands in a heap.

The renewer alone takes out; any thread may add and drop meanwhile.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from operator import attrgetter

from .lease import Lease

#: What is due within so much of its pause between two renewals goes into a batch that is sent
#: anyway, or makes up a whole one while the renewer is awake. So renewals gather in full batches,
#: stay together from then on, and the renewer is rarely woken.
EARLY_PART = 0.05
#: What is to be tried again so soon goes along with whatever is sent.
RETRY_SOON_S = 0.5

#: At most this number of entries of ended leases wait for their time; then they are removed...
DEAD_MAX = 64
#: ...and at most this number of different lengths of leases is remembered.
LENGTHS_MAX = 64

_Queue = OrderedDict[Lease, None]
_Entry = tuple[float, int, Lease]
_deadline = attrgetter("deadline")


def _nothing() -> None:
    """Nobody is to be told that it is worth it to clear away."""


class Schedule:
    """The leases of one client, each with the moment at which the renewer must look at it."""

    __slots__ = ("_crowd", "_dead", "_new", "_own", "_queues", "_tie", "crowded")

    def __init__(self, crowd: Callable[[], object] = _nothing) -> None:
        #: Called when it is worth it to clear away.
        self._crowd = crowd
        self._queues: dict[float, _Queue] = {}
        #: (when, tie-break, lease): retries, watched deadlines. Only the renewer has the heap; what
        #: others add comes in by the deque. An entry counts if its lease is due at just this time.
        self._own: list[_Entry] = []
        self._new: deque[_Entry] = deque()
        self._tie = itertools.count()
        #: How many were dropped that may be in the heap.
        self._dead = 0
        #: Is it worth it for the renewer to clear away what is left of leases that have ended?
        self.crowded = False

    def __len__(self) -> int:
        queued = sum(map(len, list(self._queues.values())))
        return queued + len(self._own) + len(self._new)

    def __iter__(self) -> Iterator[Lease]:
        """All leases; RuntimeError if another thread adds or drops one meanwhile."""
        for queue in list(self._queues.values()):
            yield from queue
        for entry in [*self._own, *self._new]:
            yield entry[2]

    def add(self, lease: Lease, due: float) -> None:
        """Behind all others of its length; nothing may be due later than ``due`` there."""
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
        """There was no queue, or it was just cleared away as an empty one."""
        queue = None
        while queue is None or self._queues.get(every) is not queue:
            queue = self._queue(every)
            queue[lease] = None

    def add_renewed(self, leases: list[Lease], sent: float) -> None:
        """The same for all that were renewed by one request; for the renewer alone, which is the
        one that clears queues away."""
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
        """At its own time, whatever its length is, and nowhere else: in the queue of its
        length it would keep its place when it is renewed, and hide what is due behind it."""
        queue = self._queues.get(lease.every)
        if queue is not None:
            queue.pop(lease, None)
        lease.due = due
        lease.own = True
        self._new.append((due, next(self._tie), lease))

    def drop(self, lease: Lease) -> None:
        """Out of the queue of its length; in the heap an entry stays for a while that counts no
        more."""
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
        """The next moment of each kind, in no order."""
        for queue in list(self._queues.values()):
            first = _head(queue)
            if first is not None:
                yield first.due
        if self._own:
            yield self._own[0][0]
        for entry in self._new.copy():
            yield entry[0]

    def clear_away(self) -> None:
        """Forget what is left of leases that have ended; for the renewer alone."""
        self.crowded, self._dead = False, 0
        self._sort_in()
        self._own = [entry for entry in self._own if _counts(entry)]
        heapq.heapify(self._own)
        for every, queue in list(self._queues.items()):
            if not queue:
                del self._queues[every]
                for lease in list(queue):  # another thread had looked for its queue before that
                    self.add(lease, lease.due)

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
        """Is a renewal that failed to be tried again soon?"""
        self._sort_in()
        own = self._own
        return bool(own) and own[0][2].failures > 0 and own[0][0] <= now + RETRY_SOON_S

    def hasten(self, now: float) -> None:
        """Everything that is renewed is due now."""
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
        """Take out everything."""
        queues, own, new = self._queues, self._own, self._new
        self._queues, self._own, self._new = {}, [], deque()
        return [lease for queue in queues.values() for lease in list(queue)] + [
            entry[2] for entry in [*own, *new] if _counts(entry)
        ]


def _counts(entry: _Entry) -> bool:
    """Is this what the lease waits for? It may be over, or be due at another time by now."""
    when, _, lease = entry
    return lease.due == when and lease.end is None and not lease.closing


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
