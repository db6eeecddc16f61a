"""View of one queue in this process: hints, each of which a transaction proves or refutes."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Container, Mapping
from typing import Any

from ....core.policy import ASK_AGAIN_S_MAX
from .names import Entry, Place, entries, in_order, job_number, read_entry

GROUPED, PLAIN = 0, 1
#: Seconds after which what was listed is listed again at the latest, also if there is more of it.
LISTED_S = 1.0
#: Minimum age of lists while one lane has nothing and the other has: these seconds, and this number
#: of times as long as listing took.
EMPTY_S, COST = 0.02, 20.0
#: Seconds for which the takes of one process that will be woken share one list.
SHARED_S = 0.25
#: After so many refusals in a row what was listed is too old to be of use.
STALE = 3
#: Among so many of the first ones a taker chooses at most, if others take as well.
SPREAD_MAX = 64


class Lane:
    """The entries of one folder that were free when they were listed."""

    def __init__(self) -> None:
        self.free: deque[Entry] = deque()
        #: (at, number, entry) of those that aren't due yet.
        self.later: list[tuple[int, int, Entry]] = []
        #: Those that we have made since it was listed.
        self.own: deque[Entry] = deque()
        #: What was listed, by node, and when.
        self.known: dict[str, Entry] = {}
        self.listed = -math.inf

    def fill(self, nodes: list[str], busy: Container[str], now: float) -> set[str]:
        """It was listed; free is what isn't busy. Its groups."""
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
        """One that is due: those first that had to wait until now, or the one at this place."""
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
        """It isn't due before that."""
        heapq.heappush(self.later, (at, entry.number, entry))

    def soonest(self) -> float:
        """When the next of them is due; ``inf`` if that isn't known of any."""
        if self.free or self.own:
            return 0.0
        return self.later[0][0] if self.later else math.inf


class Space:
    """One queue, as far as it is known here."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.place = place
        self.lanes = (Lane(), Lane())
        self.turn = GROUPED
        self.cost = 0.0
        #: How far takers of other processes make us look beyond the first one.
        self.spread = 1
        self.refusals = 0
        #: Entries that a take of ours is trying, or has got.
        self.busy: dict[str, str] = {}
        #: Of a group, which life of it, and those of its jobs that are known, in order.
        self.groups: dict[str, tuple[int, deque[str]]] = {}
        #: Groups that are there, as far as we know.
        self.existing: set[str] = set()
        #: How many jobs were accepted, as last heard, and gone, as last looked.
        self.accepted = -1
        self.gone = 0
        #: The rate's node: its version, and what it says.
        self.pace: tuple[int, float] | None = None
        self.pokes = 0

    # -- who is due ------------------------------------------------------------------------

    def stale(self, now: float) -> list[int]:
        """Which lanes must be listed before something is taken?"""
        if self.refusals >= STALE:
            return [GROUPED, PLAIN]
        soon = max(EMPTY_S, COST * self.cost)
        limits = (LISTED_S if lane.free else soon for lane in self.lanes)
        ages = (now - lane.listed for lane in self.lanes)
        return [at for at, (age, limit) in enumerate(zip(ages, limits, strict=True)) if age > limit]

    def fresh_enough(self, now: float) -> bool:
        """May something be taken while what is stale is listed? Only of a lane that had nothing, as
        that is listed often so that it is soon seen when it has."""
        stale = self.stale(now)
        return len(stale) < len(self.lanes) and not any(self.lanes[at].free for at in stale)

    def listed(self, now: float) -> bool:
        """Was all of it listed a moment ago?"""
        return all(now - lane.listed < SHARED_S for lane in self.lanes)

    def fill(self, lists: Mapping[int, list[str]], taken: list[str], now: float) -> None:
        """These lanes were listed: free is what is delivered to nobody."""
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
        """The next that may be tried; the lanes take turns where both have one."""
        for lane in (self.turn, 1 - self.turn):
            while (entry := self.lanes[lane].pick(now, chance % self.spread)) is not None:
                if self.busy.setdefault(entry.node, take) == take:
                    self.turn = 1 - lane
                    return entry
        return None

    def put_back(self, entry: Entry) -> None:
        """It was picked, and may still be had: it is the next one of its lane again."""
        self.lanes[GROUPED if entry.group else PLAIN].free.appendleft(entry)

    def refused(self) -> None:
        """Somebody else was faster: look further next time, so that we don't meet again."""
        self.refusals += 1
        self.spread = min(SPREAD_MAX, self.spread * 2)

    def soonest(self) -> float:
        """When something is due next, by the leader's clock, as far as is known."""
        return min(lane.soonest() for lane in self.lanes)

    def retry_in(self, now: int) -> float:
        """Seconds until more may be due."""
        soonest = self.soonest()
        if soonest == math.inf:
            return ASK_AGAIN_S_MAX
        return min(max((soonest - now) / 1000, 0.001), ASK_AGAIN_S_MAX)

    def own(self, node: str) -> None:
        """We have made this entry, so it needn't be listed first."""
        entry = read_entry(node)
        if entry is None or entry.blocked:
            return
        lane = self.lanes[GROUPED if entry.group else PLAIN]
        if entry.at:
            lane.put_off(entry, entry.at)
        else:
            lane.own.append(entry)

    def dirty(self) -> None:
        """Something has changed that we know of."""
        for lane in self.lanes:
            lane.listed = -math.inf

    # -- the jobs of a group -----------------------------------------------------------------

    def learn(self, entry: Entry, nodes: Any) -> None:
        """The jobs of its group were listed."""
        some = in_order(nodes if isinstance(nodes, list) else ())
        self.groups[entry.group] = (entry.birth, deque(some))

    def first(self, entry: Entry) -> str:
        """The first job of its group that is known; empty if none is."""
        birth, known = self.groups.get(entry.group, (-1, _NONE))
        return known[0] if known and birth == entry.birth else ""

    def after(self, entry: Entry) -> str:
        """The job that comes after its first one; empty if none is known."""
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
