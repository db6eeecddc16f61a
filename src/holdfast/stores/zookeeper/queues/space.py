"""The knowledge of this process about one queue: only hints, which transactions verify."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Container, Mapping
from typing import Any

from ....core.policy import ASK_AGAIN_S_MAX
from .names import Entry, Place, entries, in_order, job_number, read_entry

GROUPED, PLAIN = 0, 1
#: A *list* is the answer to a request for the nodes of a folder. Its maximum age is ``LISTED_S``
#: seconds, even if it still has free entries.
LISTED_S = 1.0
#: Maximum age of a list without free entries: ``EMPTY_S`` seconds, or ``COST`` times the duration
#: of the last listing if that is longer.
EMPTY_S, COST = 0.02, 20.0
#: A take that receives wake-ups asks again only because a wake-up can be lost. All such takes of
#: one process share lists that are younger than this number of seconds.
SHARED_S = 0.25
#: Number of refusals in a row after which a list is too old to use.
STALE = 3
#: Maximum number of leading entries among which a take chooses, if other processes take, too.
SPREAD_MAX = 64


class Lane:
    """The entries of one folder (groups or ungrouped jobs) that were free in its last list."""

    def __init__(self) -> None:
        self.free: deque[Entry] = deque()
        #: (at, number, entry) of the entries that aren't due yet.
        self.later: list[tuple[int, int, Entry]] = []
        #: The entries that this process has created since the list.
        self.own: deque[Entry] = deque()
        #: All listed entries by node, and the time of the list.
        self.known: dict[str, Entry] = {}
        self.listed = -math.inf

    def fill(self, nodes: list[str], busy: Container[str], now: float) -> set[str]:
        """Store a new list, and return its groups. All entries not in ``busy`` count as free."""
        found = entries(nodes, self.known)
        self.known = {one.node: one for one in found}
        self.listed = now
        some = [one for one in found if not one.blocked and one.node not in busy]
        later = [(one.at, one.number, one) for one in some if one.at]
        heapq.heapify(later)
        self.free, self.later = deque(one for one in some if not one.at), later
        self.own = deque()
        return {one.group for one in found}

    def pick(self, now: int, at: int) -> Entry | None:
        """Return a due entry, or None. Delayed entries that are due now come first.

        Otherwise it is the free entry at the position ``at``."""
        try:
            if self.later and self.later[0][0] <= now:
                return heapq.heappop(self.later)[2]
            if not self.free:
                return self.own.popleft() if self.own else None
            if not at:
                return self.free.popleft()
            at %= len(self.free)
            entry = self.free[at]
            del self.free[at]
        except IndexError:  # another thread was faster
            return None
        return entry

    def put_off(self, entry: Entry, at: int) -> None:
        """Record that the entry isn't due before ``at``."""
        heapq.heappush(self.later, (at, entry.number, entry))

    def soonest(self) -> float:
        """Return when the next entry is due; ``inf`` if none is known."""
        if self.free or self.own:
            return 0.0
        return self.later[0][0] if self.later else math.inf


class Space:
    """The knowledge of this process about one queue."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.place = place
        self.lanes = (Lane(), Lane())
        #: The folder from which the next entry is picked first.
        self.turn = GROUPED
        #: Duration of the last listing, in seconds.
        self.cost = 0.0
        #: Number of leading entries among which we choose, to avoid the takes of other processes.
        self.spread = 1
        self.refusals = 0
        #: Entries that a take of this process tries or has: the id of the take by the entry's node.
        self.busy: dict[str, str] = {}
        #: For each group the `Entry.birth`, and the known jobs in order.
        self.groups: dict[str, tuple[int, deque[str]]] = {}
        #: Groups that exist, as far as we know.
        self.existing: set[str] = set()
        #: Number of jobs that the queue has accepted in all, when this process last learned it;
        #: -1: not known yet.
        self.accepted = -1
        #: Number of jobs that had ended when this process last counted them; it can be too low.
        self.gone = 0
        #: Version and value of the node ``pace``; None: not known.
        self.pace: tuple[int, float] | None = None
        #: How often waiters were woken; this selects the next waiter.
        self.pokes = 0

    # -- due entries -----------------------------------------------------------------------

    def stale(self, now: float) -> list[int]:
        """Return the folders (`GROUPED`, `PLAIN`) that must be listed before a take."""
        if self.refusals >= STALE:
            return [GROUPED, PLAIN]
        soon = max(EMPTY_S, COST * self.cost)
        limits = (LISTED_S if lane.free else soon for lane in self.lanes)
        ages = (now - lane.listed for lane in self.lanes)
        return [at for at, (age, limit) in enumerate(zip(ages, limits, strict=True)) if age > limit]

    def fresh_enough(self, now: float) -> bool:
        """True if a take may be sent together with the requests for new lists.

        One list must be fresh, and the other list may be stale only if it has no free entry. A list
        without free entries is soon stale, so that new entries are seen early."""
        stale = self.stale(now)
        return len(stale) < len(self.lanes) and not any(self.lanes[at].free for at in stale)

    def listed(self, now: float) -> bool:
        """True if both folders were listed within the last `SHARED_S` seconds."""
        return all(now - lane.listed < SHARED_S for lane in self.lanes)

    def fill(self, lists: Mapping[int, list[str]], taken: list[str], now: float) -> None:
        """Store new lists of these folders. Entries with a mark (``taken``) count as busy."""
        busy = {*taken, *self.busy}
        for lane, nodes in lists.items():
            here = self.lanes[lane].fill(nodes, busy, now)
            if lane == GROUPED:
                self.existing = here
                for group in [one for one in list(self.groups) if one not in here]:
                    self.groups.pop(group, None)
        if len(lists) == len(self.lanes):
            if not self.refusals:
                self.spread = max(1, self.spread // 2)
            self.refusals = 0

    def pick(self, now: int, take: str, chance: int) -> Entry | None:
        """Return the next entry to try; groups and ungrouped jobs alternate if both have one."""
        for lane in (self.turn, 1 - self.turn):
            while (entry := self.lanes[lane].pick(now, chance % self.spread)) is not None:
                if self.busy.setdefault(entry.node, take) == take:
                    self.turn = 1 - lane
                    return entry
        return None

    def put_back(self, entry: Entry) -> None:
        """Make a picked entry, which may still be free, the first one of its folder again."""
        self.lanes[GROUPED if entry.group else PLAIN].free.appendleft(entry)

    def refused(self) -> None:
        """Record that another client was faster; next time choose among more entries."""
        self.refusals += 1
        self.spread = min(SPREAD_MAX, self.spread * 2)

    def soonest(self) -> float:
        """Return when the next known entry is due, by the leader's clock."""
        return min(lane.soonest() for lane in self.lanes)

    def retry_in(self, now: int) -> float:
        """Return the seconds until a job can be due, at most `ASK_AGAIN_S_MAX`."""
        soonest = self.soonest()
        if soonest == math.inf:
            return ASK_AGAIN_S_MAX
        return min(max((soonest - now) / 1000, 0.001), ASK_AGAIN_S_MAX)

    def own(self, node: str) -> None:
        """Add an entry that we have created, without a new list."""
        entry = read_entry(node)
        if entry is None or entry.blocked:
            return
        lane = self.lanes[GROUPED if entry.group else PLAIN]
        if entry.at:
            lane.put_off(entry, entry.at)
        else:
            lane.own.append(entry)

    def dirty(self) -> None:
        """Mark all lists as out of date, so that the next take asks for new ones."""
        for lane in self.lanes:
            lane.listed = -math.inf

    # -- the jobs of a group -----------------------------------------------------------------

    def learn(self, entry: Entry, nodes: Any) -> None:
        """Store the listed jobs of an entry's group."""
        some = in_order(nodes if isinstance(nodes, list) else ())
        self.groups[entry.group] = (entry.birth, deque(some))

    def first(self, entry: Entry) -> str:
        """Return the first known job of the entry's group; empty if none is known."""
        birth, known = self.groups.get(entry.group, (-1, _NONE))
        return known[0] if known and birth == entry.birth else ""

    def after(self, entry: Entry) -> str:
        """Return the known job that follows the entry's first job; empty if none is known."""
        birth, known = self.groups.get(entry.group, (-1, _NONE))
        if birth != entry.birth:
            return ""
        number = job_number(entry.first)
        try:
            while known and job_number(known[0]) <= number:
                known.popleft()
            return known[0] if known else ""
        except IndexError:  # another thread was faster
            return ""


_NONE: deque[str] = deque()
