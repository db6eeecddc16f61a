"""Serial queues in a cluster: several shards, from which a worker takes in turn.

A take first asks one shard; the next take asks the next shard. A take that gets too few jobs
inspects all shards in one round trip per node, and takes from the shards where jobs have been due
longest. With a rate limit, a take begins with this inspection, and reserves starts in the home
shard before it takes. Takes wait in the home shard. A client that puts or settles in another shard
wakes these takes by a second call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ...core.ports import Unreached
from ...core.queue.model import Delivered, Job, Put, Take, Taken
from ...errors import StoreUnavailable
from . import queue_replies as replies
from .port import Port
from .queue_keys import SHARDS, Layout
from .queues import RedisQueues, ServerQueues

#: The time of a take is divided by this number; each request of the take gets one part.
_STEPS = 6
#: Minimum seconds until a take asks again after it got nothing although a job was due.
AGAIN_S = 0.05


def queues_over(port: Port, prefix: str) -> RedisQueues:
    """The queues of a server, or of a cluster."""
    if port.clustered:
        return ClusterQueues(port, prefix, Layout(SHARDS))
    return ServerQueues(port, prefix, Layout(1))


class ClusterQueues(RedisQueues):
    """See :class:`holdfast.core.queue.ports.Queues`."""

    def __init__(self, port: Port, prefix: str, layout: Layout) -> None:
        super().__init__(port, prefix, layout)
        self._turns = itertools.count()

    def forget(self) -> None:
        """Forget all takes: the client is closed, or this is the child of a fork."""
        super().forget()
        #: By the id of a take: the shard that was asked and has not answered.
        self._tried: dict[str, int] = {}

    async def put(self, put: Put, within: float) -> list[bool]:
        """Accept all jobs: each shard all of its jobs or none. A repeated put adds no job twice."""
        parts: dict[int, list[int]] = {}
        for at, job in enumerate(put.jobs):
            parts.setdefault(self._layout.home_of(job), []).append(at)
        calls = [self._requests.put(put, one, _those(put.jobs, of)) for one, of in parts.items()]
        said = await self._port.ask_many(calls, within)
        found = [False] * len(put.jobs)
        due = 0
        for (shard, of), reply in zip(parts.items(), said, strict=True):
            if isinstance(reply, Unreached) and len(parts) > 1:  # others can have accepted jobs
                raise StoreUnavailable(str(reply)) from reply
            answers, more = replies.accepted(reply, len(of), self._port.label)
            for at, new in zip(of, answers, strict=True):
                found[at] = new
            due += more if shard else 0
        await self._wake(put.queue, due, within)
        return found

    async def take(self, take: Take, within: float) -> Taken:
        """Take from the shard whose turn it is, then from the shards where jobs are due longest."""
        within /= _STEPS
        paced = take.pace.rate < math.inf
        got: list[Delivered] = []
        turn = self._tried.get(take.id)
        if turn is not None or not paced:
            if turn is None:
                turn = next(self._turns) % SHARDS
            got += (await self._of(take, turn, take.most, within)).deliveries
        if len(got) == take.most:
            return Taken(tuple(got), 0.0)
        try:
            retry = await self._of_the_longest_due(take, got, within)
            if take.wait and not got:
                # Begin to wait only now: a waiting take that got a job from another shard could
                # receive a wake-up that another waiter needs. After that, look again for jobs that
                # became due before this take waited.
                taken = await self._take_or_wait(take, 0 if paced else take.most, within, False)
                got += taken.deliveries
                if not got:
                    retry = await self._of_the_longest_due(take, got, within)
        except StoreUnavailable:
            if not got:
                raise
            retry = 0.0
        return Taken(tuple(got), 0.0 if got else min(retry, 1.0))

    async def _of_the_longest_due(self, take: Take, got: list[Delivered], within: float) -> float:
        """Take from the shards where jobs are due; return seconds until the next take is useful."""
        calls = [self._requests.look(take.queue, one, b"due") for one in range(SHARDS)]
        said = await self._port.ask_many(calls, within)
        looks = [replies.listed(reply, self._port.label) for reply in said]
        order = sorted(range(SHARDS), key=lambda one: -looks[one][0])
        left = take.most - len(got)
        if take.pace.rate < math.inf and looks[order[0]][0] >= 0:
            reply = await self._port.ask(self._requests.pace(take, left), within)
            left, ms = replies.counted(reply, self._port.label)
            if not left:
                return float(ms / 1000)
        retry: float = min(look[1] for look in looks) / 1000
        for shard in order:
            if left <= 0 or looks[shard][0] < 0:
                break
            taken = await self._of(take, shard, left, within)
            got += taken.deliveries
            left -= len(taken.deliveries)
        # `retry` can be 0, because another take got the due job, or recovery grants nothing.
        return max(float(retry), AGAIN_S)

    async def _of(self, take: Take, shard: int, most: int, within: float) -> Taken:
        """Take from one shard. If the shard doesn't answer, the next call asks this shard first."""
        self._tried[take.id] = shard
        taken = await self._take_from(take, shard, most, within, False)
        del self._tried[take.id]
        return taken

    def unlisten(self, take: Take) -> None:
        """Stop waiting for this take; see the contract."""
        self._tried.pop(take.id, None)
        super().unlisten(take)


def _those(jobs: Sequence[Job], places: Sequence[int]) -> list[Job]:
    return [jobs[at] for at in places]
