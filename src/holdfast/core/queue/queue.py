"""A serial queue: accepting jobs, and taking those that are due."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import ConfigError, StoreUnavailable
from .. import checks
from ..lease import Terms
from ..policy import REQUEST_S, deadline
from . import payload as payloads
from .delivery import DeliveryBase, Done, settle_all
from .lease import DeliveryLease
from .model import (
    BATCH_MAX,
    DELAY_S_MAX,
    GROUP_BYTES_MAX,
    JOB_ID_BYTES_MAX,
    Job,
    JobRecord,
    JobState,
    Pace,
    Patience,
    Put,
    QueueRecord,
    Take,
    Taken,
)
from .ports import Queues, queues_of
from .taking import Taking, never

if TYPE_CHECKING:
    from ..context import Context

#: A put waits so many seconds for a store that doesn't answer.
PUT_S = 10.0
#: Deliveries are renewed as holds are that are taken without more ado.
_TERMS = Terms()


class Retry(NamedTuple):
    """Pauses between the attempts of a job that fails: the first one, and the longest, seconds."""

    first: float = 1.0
    longest: float = 300.0


class Options(NamedTuple):
    """What a queue is like, for those who put and for those who take."""

    pace: Pace
    patience: Patience
    retry: Retry
    ttl: float
    window: float


class Receipt(NamedTuple):
    """The store has it. ``id`` names the job; ``duplicate``: a job with this id was accepted
    before, so this one was dropped."""

    id: str
    duplicate: bool


class _Lane:
    """One request to put at a time goes by it, each with the next number."""

    __slots__ = ("epoch", "id", "number")

    def __init__(self, name: str, epoch: int) -> None:
        self.id = name
        self.epoch = epoch
        self.number = 0


class QueueBase:
    """A serial queue of one client."""

    #: What a face makes of a delivery.
    _delivery: type[DeliveryBase] = DeliveryBase

    def __init__(self, ctx: Context, name: str, options: Options) -> None:
        self._ctx = ctx
        self._name = name
        self._options = options
        self._lanes: deque[_Lane] = deque()

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} on {self._ctx.store.label}>"

    def _queues(self) -> Queues:
        self._ctx.require_open()
        self._ctx.runtime.bind()
        return queues_of(self._ctx.store)

    # -- putting ---------------------------------------------------------------------------

    def _job(self, payload: Any, group: Any, id: Any, delay: Any, made: str = "") -> Job:
        """A job from what the caller handed in; each part is checked here. ``made``: its id if the
        caller gave none."""
        packed = payloads.pack(payload, queues_of(self._ctx.store).limits.payload_bytes)
        where = "" if group is None else checks.text("group", group, GROUP_BYTES_MAX, 1)
        wait = checks.seconds("delay", delay, 0.0, DELAY_S_MAX) if delay else 0.0
        if id is None:
            job = (made or self._ctx.runtime.new_id(), where, packed, wait, False)
            return tuple.__new__(Job, job)
        return Job(checks.text("id", id, JOB_ID_BYTES_MAX, 1), where, packed, wait, known=True)

    def _jobs(self, items: Iterable[Any], group: Any) -> list[Job]:
        found = []
        #: The ids of a batch follow each other: to ask the system for each would take longer than
        #: all the rest.
        id_ = int(self._ctx.runtime.new_id(), 16)
        for item in items:
            id_ = (id_ + 1) % _IDS
            given = item if isinstance(item, Mapping) else {"payload": item}
            if not _KEYS.issuperset(given):
                odd = min(str(key) for key in given if key not in _KEYS)
                raise ConfigError(
                    f"{odd!r} is no part of a job; known: {', '.join(_PARTS)}. Wrap a payload "
                    'that is a mapping as {"payload": {...}}'
                )
            if "payload" not in given:
                raise ConfigError(f'a job needs a payload: {{"payload": ...}}, not {item!r:.80}')
            look = given.get
            parts = look("group", group), look("id"), look("delay", 0.0), f"{id_:032x}"
            found.append(self._job(given["payload"], *parts))
        return found

    async def _put(self, jobs: list[Job]) -> list[Receipt]:
        """Put them, up to 1,000 in a round trip; each such batch is accepted as a whole."""
        receipts: list[Receipt] = []
        for start in range(0, len(jobs), BATCH_MAX):
            batch = jobs[start : start + BATCH_MAX]
            answers = await self._put_batch(tuple(batch))
            receipts += [Receipt(job.id, not new) for job, new in zip(batch, answers, strict=True)]
        return receipts

    async def _put_batch(self, jobs: tuple[Job, ...]) -> list[bool]:
        ctx, queues = self._ctx, self._queues()
        lane = self._lane()
        lane.number += 1
        put = Put(self._name, lane.id, lane.number, jobs, self._options.window)
        try:
            answers, _ = await ctx.insist(lambda w: queues.put(put, w), ctx.now() + PUT_S)
        except StoreUnavailable as failure:
            raise StoreUnavailable(
                f"{ctx.store.label} did not answer within {PUT_S:g} s, so it isn't known whether "
                f"{len(jobs)} job(s) were accepted by {self._name!r}. Put them again: with ids of "
                f"your own none is accepted twice. It said last: {failure}"
            ) from failure
        # Only now, as of a lane that was given up a copy may still be under way.
        self._lanes.append(lane)
        return answers

    def _lane(self) -> _Lane:
        ctx = self._ctx
        while self._lanes:
            try:
                lane = self._lanes.pop()
            except IndexError:
                break  # another thread took it
            if lane.epoch == ctx.epoch:
                return lane
        return _Lane(ctx.runtime.new_id(), ctx.epoch)

    # -- taking ----------------------------------------------------------------------------

    async def _take(
        self,
        most: int,
        timeout: float | None,
        halted: Callable[[], bool] = never,
        done: Done | None = None,
    ) -> list[DeliveryBase]:
        """Deliveries that are due; none when the time is over. None for the time: without end.
        ``done`` is settled first: with the same request, where the store can."""
        queues = self._queues()
        if self._ctx.orphans:
            self._ctx.drain_orphans()
        return await Taking(self, queues, most, timeout, halted, done).run()

    def _made(self, take: Take, taken: Taken, sent: float, suspect: bool) -> list[DeliveryBase]:
        """The deliveries of a take, in the keeper's care; none if they came too late."""
        ctx = self._ctx
        until = deadline(sent, take.ttl)
        if ctx.now() >= until or ctx.closed:
            return []
        made = []
        for job in taken.deliveries:
            lease = DeliveryLease(take, job, until, sent, _TERMS, suspect)
            made.append(self._delivery(ctx, lease, self._options.retry))
            if suspect:
                ctx.keeper.add_early(lease, ctx.now())
            else:
                ctx.keeper.add(lease, sent + lease.every)
        return made

    async def _ack(self, jobs: Iterable[DeliveryBase]) -> list[bool]:
        some = list(jobs)
        if odd := next((one for one in some if one._ctx is not self._ctx), None):
            raise ConfigError(f"{odd!r} was taken by another client; ack it there")
        return await settle_all(self._ctx, [(one, one._ack_request()) for one in some])

    # -- looking and mending ---------------------------------------------------------------

    async def _stats(self) -> QueueRecord:
        found = await self._queues().survey(self._name, REQUEST_S, exact=True)
        return found[0] if found else QueueRecord(self._name, 0, 0, 0, 0, 0.0, 0, 0)

    async def _list(self, state: Any, group: Any, most: int) -> list[JobRecord]:
        where = None if group is None else checks.text("group", group, GROUP_BYTES_MAX, 0)
        return await self._queues().jobs(self._name, _state(state), where, most, REQUEST_S)

    async def _revive(self, ids: Iterable[str] | None) -> int:
        return await self._in_batches(
            ids, lambda some: self._queues().revive(self._name, some, REQUEST_S)
        )

    async def _purge(self, state: Any, ids: Iterable[str] | None) -> int:
        stands = _state(state)
        if stands is JobState.TAKEN:
            raise ConfigError("what is taken can't be removed: its worker has it")
        return await self._in_batches(
            ids, lambda some: self._queues().purge(self._name, stands, some, REQUEST_S)
        )

    async def _in_batches(self, ids: Iterable[str] | None, do: Any) -> int:
        """Again and again, until all is done; how many."""
        total = 0
        if ids is not None:
            if isinstance(ids, str):
                raise ConfigError(f"ids must be several: write [{ids!r}]")
            some = list(ids)
            for start in range(0, len(some), BATCH_MAX):
                total += await do(some[start : start + BATCH_MAX])
            return total
        while done := await do(None):
            total += done
        return total


#: What a job is put with.
_PARTS = ("payload", "group", "id", "delay")
_KEYS = frozenset(_PARTS)
#: So many ids there are.
_IDS = 1 << 128


def _state(value: Any) -> JobState | None:
    if value is None:
        return None
    try:
        return JobState(value)
    except ValueError:
        known = ", ".join(JobState)
        raise ConfigError(f"{value!r} is no state of a job; known: {known}") from None
