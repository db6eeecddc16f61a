"""A serial queue: put jobs, take due jobs, inspect and repair the queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import ConfigError, HoldfastError, StoreUnavailable
from .. import checks
from ..asking import Asking
from ..policy import REQUEST_S, deadline
from ..ports import DiskFailed, Unreached
from . import mending
from . import payload as payloads
from .delivery import DeliveryBase
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
    TooLarge,
)
from .ports import Queues, queues_of
from .settling import Done, settle_all
from .taking import Taking, never

if TYPE_CHECKING:
    from ..context import Context
    from .silence import Silence

#: Seconds for which a put waits for a store that doesn't answer.
PUT_S = 10.0


class Retry(NamedTuple):
    """Pauses between the attempts of a failing job, in seconds: the first and the longest."""

    first: float = 1.0
    longest: float = 300.0


class Options(NamedTuple):
    """The options of a queue, for putting and for taking."""

    pace: Pace
    patience: Patience
    retry: Retry
    ttl: float
    dedup_window: float


class Receipt(NamedTuple):
    """The store has accepted the job. ``id``: the id of the job. ``duplicate``: True if a job with
    this id was accepted before, so that this one was dropped."""

    id: str
    duplicate: bool


class _Lane:
    """A producer (see `Put`): it sends one put at a time, each with the next number."""

    __slots__ = ("epoch", "id", "number")

    def __init__(self, name: str, epoch: int) -> None:
        self.id = name
        self.epoch = epoch
        self.number = 0


class QueueBase:
    """A serial queue of one client."""

    #: The class of the deliveries: one for threads, another one for asyncio.
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

    def __reduce__(self) -> Any:
        raise checks.unpicklable(self)

    def _queues(self) -> Queues:
        self._ctx.require_open()
        self._ctx.runtime.bind()
        return queues_of(self._ctx.store)

    # -- putting ---------------------------------------------------------------------------

    def _job(self, payload: Any, group: Any, id: Any, delay: Any, made: str = "") -> Job:
        """Return a job from the caller's arguments, each of which is checked. ``made``: the id of
        the job if the caller gave none."""
        packed = payloads.pack(payload, queues_of(self._ctx.store).limits.payload_bytes)
        where = "" if group is None else checks.text("group", group, GROUP_BYTES_MAX, 1)
        wait = (
            0.0
            if delay is None or delay == 0.0
            else checks.seconds("delay", delay, 0.0, DELAY_S_MAX)
        )
        if id is None:
            job = (made or self._ctx.runtime.new_id(), where, packed, wait, False)
            return tuple.__new__(Job, job)
        return Job(checks.text("id", id, JOB_ID_BYTES_MAX, 1), where, packed, wait, known=True)

    def _jobs(self, items: Iterable[Any], group: Any) -> list[Job]:
        found = []
        #: The ids of a batch are consecutive, because a separate random id for each job would take
        #: longer than everything else.
        id_ = int(self._ctx.runtime.new_id(), 16)
        for item in checks.several("items", items):
            id_ = (id_ + 1) % _IDS
            given = item if isinstance(item, Mapping) else {"payload": item}
            if not _KEYS.issuperset(given):
                odd = min(checks.shown(key) for key in given if key not in _KEYS)
                raise ConfigError(
                    f"{odd} isn't a part of a job; known: {', '.join(_PARTS)}. Wrap a payload "
                    'that is a mapping as {"payload": {...}}'
                )
            if "payload" not in given:
                raise ConfigError(
                    f'a job needs a payload: {{"payload": ...}}, not {checks.shown(item)}'
                )
            look = given.get
            parts = look("group", group), look("id"), look("delay", 0.0), f"{id_:032x}"
            found.append(self._job(given["payload"], *parts))
        return found

    async def _put(self, jobs: list[Job]) -> list[Receipt]:
        """Put jobs in batches of up to 1,000, or fewer if they are too large for one request. Each
        batch takes one round trip, and is accepted completely or not at all."""
        receipts: list[Receipt] = []
        most = BATCH_MAX
        while len(receipts) < len(jobs):
            batch = tuple(jobs[len(receipts) : len(receipts) + most])
            try:
                answers = await self._put_batch(batch)
            except HoldfastError as failure:
                if isinstance(failure, TooLarge) and len(batch) > 1:
                    most = (len(batch) + 1) // 2
                    continue
                if not receipts:
                    raise
                before = f"the first {len(receipts)} of {len(jobs)} jobs were accepted"
                if isinstance(type(failure).__init__, FunctionType):  # it may need more arguments
                    failure.add_note(before)
                    raise
                raise type(failure)(f"{before}; then: {failure}") from failure
            receipts += [Receipt(job.id, not new) for job, new in zip(batch, answers, strict=True)]
        return receipts

    async def _put_batch(self, jobs: tuple[Job, ...]) -> list[bool]:
        ctx, queues = self._ctx, self._queues()
        lane = self._lane()
        lane.number += 1
        put = Put(self._name, lane.id, lane.number, jobs, self._options.dedup_window)
        asking = Asking(ctx)
        try:
            answers = await asking.insist(lambda w: queues.put(put, w), ctx.now() + PUT_S)
        except DiskFailed as failure:
            raise DiskFailed(
                f"{self._name!r} accepts no jobs: {failure}. When that is repaired, put the "
                f"{len(jobs)} job(s) again; with your own ids no job is accepted twice"
            ) from failure
        except StoreUnavailable as failure:
            if not asking.reached:
                raise Unreached(
                    f"nothing was sent: {ctx.store.label} could not be reached for {PUT_S:g} s, so "
                    f"{self._name!r} has not accepted {len(jobs)} job(s). Put them again when the "
                    f"store can be reached. The last try: {failure}"
                ) from failure
            raise StoreUnavailable(
                f"{ctx.store.label} did not answer within {PUT_S:g} s, so it is unknown whether "
                f"{len(jobs)} job(s) were accepted by {self._name!r}. Put them again; with your "
                f"own ids no job is accepted twice. The last failure was: {failure}"
            ) from failure
        # The producer is free only here, after a reply. A copy of a failed request can still be
        # under way, so the producer of that request isn't used again.
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
        silence: Silence | None = None,
    ) -> list[DeliveryBase]:
        """Return deliveries that are due; none after ``timeout`` seconds (None: no time limit).
        ``done`` is settled first, in the same request if the store can do that. ``silence`` is
        notified of each failure and each reply."""
        queues = self._queues()
        if self._ctx.orphans:
            self._ctx.drain_orphans()
        return await Taking(self, queues, most, timeout, halted, done, silence).run()

    def _made(self, take: Take, taken: Taken, since: float, suspect: bool) -> list[DeliveryBase]:
        """Make the deliveries of a take, and add them to the renewer; none if the reply came too
        late. ``since``: the earliest moment at which their leases can have begun."""
        ctx = self._ctx
        until = deadline(since, take.ttl)
        if ctx.now() >= until or ctx.closed:
            return []
        made: list[DeliveryBase] = []
        try:
            for job in taken.deliveries:
                lease = DeliveryLease(take, job, until, suspect)
                made.append(self._delivery(ctx, lease, self._options.retry))
                if suspect:
                    ctx.keeper.add_early(lease, ctx.now())
                else:
                    ctx.keeper.add(lease, since + lease.every)
        except BaseException:  # the caller releases the take, and gets no delivery
            for one in made:
                one._forgo()
            raise
        return made

    async def _ack(self, jobs: Iterable[DeliveryBase]) -> list[bool]:
        some: list[Any] = checks.several("jobs", jobs)
        if wrong := [one for one in some if not hasattr(one, "_ack_request")]:
            raise ConfigError(f"jobs must be deliveries of take(), not {checks.shown(wrong[0])}")
        if odd := next((one for one in some if one._ctx is not self._ctx), None):
            raise ConfigError(f"{odd!r} was taken by another client; ack it there")
        return await settle_all(self._ctx, [(one, one._ack_request()) for one in some])

    # -- inspecting and repairing ------------------------------------------------------------

    async def _stats(self) -> QueueRecord:
        found = await self._queues().survey(self._name, REQUEST_S, exact=True)
        return found[0] if found else QueueRecord(self._name, 0, 0, 0, 0, 0.0, 0, 0)

    async def _list(self, state: Any, group: Any, most: int) -> list[JobRecord]:
        where = None if group is None else checks.text("group", group, GROUP_BYTES_MAX, 0)
        return await self._queues().jobs(self._name, _state(state), where, most, REQUEST_S)

    async def _retry_dead(self, ids: Iterable[str] | None) -> int:
        return await mending.revive(self._queues(), self._name, _several(ids))

    async def _purge(self, state: Any, ids: Iterable[str] | None) -> int:
        stands = _state(state)
        if stands is JobState.TAKEN:
            raise ConfigError("a taken job can't be removed before its delivery has ended")
        return await mending.purge(self._queues(), self._name, stands, _several(ids))


def _several(ids: Iterable[str] | None) -> list[str] | None:
    if ids is None:
        return None
    return [checks.text("ids", one, JOB_ID_BYTES_MAX, 1) for one in checks.several("ids", ids)]


#: The parts of a job in a batch.
_PARTS = ("payload", "group", "id", "delay")
_KEYS = frozenset(_PARTS)
#: The number of possible ids.
_IDS = 1 << 128


def _state(value: Any) -> JobState | None:
    if value is None:
        return None
    known = {str(one): one for one in JobState}
    if not isinstance(value, str) or value not in known:
        given = checks.shown(value)
        raise ConfigError(f"state={given} isn't a state of a job; known: {', '.join(known)}")
    return known[value]
