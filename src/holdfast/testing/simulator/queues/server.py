"""The store model of serial queues: the reference jobs behind a network that fails."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ....core.queue.model import (
    Extend,
    Put,
    QueueLimits,
    Settle,
    Take,
    Taken,
    Verdict,
)
from ....errors import StoreUnavailable
from ....stores.memory import jobs_look
from ....stores.memory.jobs import Queue, Track
from ..server import Server
from ..store import CAPABILITIES, Box, SimStore, Verbs, listing, verb
from ..world import Process, World

#: Maximum seconds for which the workload holds a job back, by a delay or an interval.
HELD_BACK_S_MAX = 8.0


class QueueServer(Server):
    """The only server of the simulation, with queues."""

    verbs = ("put", "take", "give_back", "settle", "extend", "settle_and_take")

    def __init__(self, world: World, ttl_max: float) -> None:
        super().__init__(world, ttl_max)
        self.queues: dict[str, Queue] = {}
        #: The settles that succeeded: (id of the take, seq of the job) -> the verdict.
        self.settled: dict[tuple[str, int], str] = {}
        self._acked: set[str] = set()
        #: The id of a job that was acked twice; empty if there is none.
        self.acked_twice = ""

    def is_acked(self, id_: str) -> bool:
        """Return True if an ack of this job succeeded."""
        return id_ in self._acked

    def queue(self, name: str) -> Queue:
        """Return the queue of this name; create it if it doesn't exist."""
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = Queue()
        return found

    def clamp(self, now: float) -> None:
        """Let no lease last longer than its ttl from now, and no job wait for longer than asked."""
        super().clamp(now)
        for queue in self.queues.values():
            for track in tracks(queue):
                track.due = min(track.due, now + HELD_BACK_S_MAX)
                for row in track.rows:
                    row.not_before = min(row.not_before, now + HELD_BACK_S_MAX)
                if track.loan is not None:
                    track.loan.expires = min(track.loan.expires, now + track.loan.take.ttl)
            queue.next_start = min(queue.next_start, now + 1.0)
            queue.mend(now)

    def _done(self, queue: Queue, answer: Any) -> tuple[Any, list[Any]]:
        pokes, queue.pokes = queue.pokes, []
        return answer, [((pid, 0), id_, 1) for pid, id_ in pokes]

    def _put(self, put: Put, now: float, address: Any) -> Any:
        queue = self.queue(put.queue)
        try:
            return self._done(queue, queue.put(put, now))
        except StoreUnavailable as late:
            return late, []

    def _take(self, take: Take, now: float, address: Any) -> Any:
        queue = self.queue(take.queue)
        return self._done(queue, queue.take(take, now, (address[0], take.id)))

    def _give_back(self, take: Take, now: float, address: Any) -> Any:
        queue = self.queue(take.queue)
        return self._done(queue, queue.give_back(take, now))

    def _settle(self, settles: Sequence[Settle], now: float, address: Any) -> Any:
        answers, pokes = [], []
        for settle in settles:
            queue = self.queue(settle.queue)
            track = queue._of(settle)
            id_ = track.rows[0].job.id if track is not None else ""
            answer, some = self._done(queue, queue.settle(settle, now))
            if answer:
                self.settled[settle.take, settle.seq] = settle.verdict
            if answer and settle.verdict is Verdict.ACK:
                self.acked_twice = id_ if id_ in self._acked else ""
                self._acked.add(id_)
            answers.append(answer)
            pokes += some
        return answers, pokes

    def _extend(self, extends: Sequence[Extend], now: float, address: Any) -> Any:
        answers, pokes = [], []
        for extend in extends:
            queue = self.queue(extend.queue)
            answer, some = self._done(queue, queue.extend(extend, now))
            answers.append(answer)
            pokes += some
        return answers, pokes

    def _settle_and_take(
        self, settles: Sequence[Settle], take: Take, now: float, address: Any
    ) -> Any:
        answers, pokes = self._settle(settles, now, address)
        taken, more = self._take(take, now, address)
        return (answers, taken), pokes + more

    def _survey(self, prefix: str, exact: bool, now: float, address: Any) -> Any:
        names = [one for one in sorted(self.queues) if one == prefix or not exact]
        return [jobs_look.survey(one, self.queues[one], now) for one in names], []

    def _jobs(self, queue: str, state: Any, group: Any, most: int, now: float, address: Any) -> Any:
        return jobs_look.records(self.queue(queue), now)[:most], []


def tracks(queue: Queue) -> Sequence[Track]:
    """Return all groups and ungrouped jobs of a queue; each has one delivery at a time."""
    return [*itertools.chain(queue.tracks.values(), queue.singles.values())]


class SimQueues(Verbs):
    """The client's side: the verbs of queues as messages."""

    limits = QueueLimits()
    put, settle, extend = verb("put"), verb("settle"), verb("extend")
    give_back, jobs, survey = verb("give_back"), verb("jobs"), listing("survey")

    def __init__(self, store: SimStore) -> None:
        super().__init__(store)
        #: A task of an actor -> the id of its last take.
        self.takes: dict[object, str] = {}

    async def take(self, take: Take, within: float) -> Taken:
        """See ``core.queue.ports.Queues``."""
        self._noted(take)
        if take.wait:
            self._store.boxes.setdefault(take.id, Box())
        taken: Taken = await self._call("take", (take,), within)
        return taken

    def _noted(self, take: Take) -> None:
        self.takes[self._store.world.current] = take.id


class SimOnward(SimQueues):
    """The verbs of queues, and one that settles and takes in one round trip."""

    async def settle_and_take(self, settles: Sequence[Settle], take: Take, within: float) -> Any:
        """See ``core.queue.ports.Onward``."""
        self._noted(take)
        return await self._call("settle_and_take", ([*settles], take), within)


class QueuedStore(SimStore):
    """The simulated store, with queues; with ``onward`` it settles and takes in one round trip."""

    capabilities = CAPABILITIES._replace(queues=True)

    def __init__(self, server: QueueServer, process: Process, onward: bool) -> None:
        super().__init__(server, process)
        self.queues: Any = (SimOnward if onward else SimQueues)(self)
