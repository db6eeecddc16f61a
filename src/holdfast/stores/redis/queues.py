"""The verbs of serial queues on Redis: the script of each, and the shard to which it is sent.

This module uses no socket: see ``store.py`` for the port. On one server all jobs of a queue are in
one shard; ``queue_cluster.py`` handles several shards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from ...core.model import Gone, Held, Loss
from ...core.queue.model import (
    BATCH_MAX,
    Extend,
    JobRecord,
    JobState,
    Put,
    QueueLimits,
    QueueRecord,
    Settle,
    Take,
    Taken,
)
from ...errors import HoldfastError, StoreUnavailable
from . import queue_replies as replies
from .port import Port, Reply
from .queue_calls import QueueRequests
from .queue_keys import Layout
from .queue_look import Looking
from .scripts import Call

T = TypeVar("T", Settle, Extend)

#: Maximum seconds to report the address of a take that was sent without an address; if this report
#: fails, a later request reports the address.
ADDRESS_S = 0.2
#: Maximum number of takes, per queue, that no longer wait and that the next request reports.
_STALE_MAX = 100
#: Maximum number of deliveries that are settled or renewed in one call.
_CALL_MAX = 500
#: Maximum number of jobs that are removed after one search through a queue.
_PURGE_MAX = 50_000


class Seat(NamedTuple):
    """A waiting take: the number of its calls; its member in the shard's list of waiters."""

    ticket: int
    member: bytes


class RedisQueues:
    """See :class:`holdfast.core.queue.ports.Queues`."""

    limits = QueueLimits()
    #: See ``barred_of`` of the contract.
    barred = ""

    def __init__(self, port: Port, prefix: str, layout: Layout) -> None:
        self._port = port
        self._layout = layout
        self._requests = QueueRequests(layout, prefix)
        self._looking = Looking(port, prefix, layout, self._requests)
        self.forget()

    def forget(self) -> None:
        """Forget all takes: the client is closed, or this is the child of a fork."""
        self._seats: dict[str, Seat] = {}
        #: By queue: takes that no longer wait, but can still be in the shard's list of waiters.
        self._stale: dict[str, deque[bytes]] = {}

    # -- putting ---------------------------------------------------------------------------

    async def put(self, put: Put, within: float) -> list[bool]:
        """Accept all jobs; see the contract."""
        reply = await self._port.ask(self._requests.put(put, 0, put.jobs), within)
        answers, _ = replies.accepted(reply, len(put.jobs), self._port.label)
        return answers

    # -- taking ----------------------------------------------------------------------------

    async def take(self, take: Take, within: float) -> Taken:
        """Take due jobs; see the contract."""
        if take.wait:
            return await self._take_or_wait(take, take.most, within)
        return await self._take_from(take, 0, take.most, within)

    async def _take_from(
        self, take: Take, shard: int, most: int, within: float, paced: bool = True
    ) -> Taken:
        stale = b"" if shard else self._gone(take)
        call = self._requests.take(take, shard, most, b"", stale, paced)
        return self._taken(await self._port.ask(call, within), shard)

    def _taken(self, reply: Reply, shard: int) -> Taken:
        taken = Taken(*replies.taken(reply, shard, self._layout, self._port.label))
        if not taken.deliveries:
            self.barred = replies.why_none(reply, self._port.label)
        return taken

    async def _take_or_wait(
        self, take: Take, most: int, within: float, paced: bool = True
    ) -> Taken:
        """Take in the home shard, or wait there."""
        ask = self._port.stand if take.id in self._seats else self._port.enter
        taken = await self._asked(ask, take, most, within, paced)
        if taken.deliveries or self._port.addressed(take.id):
            return taken
        try:  # if this fails, the take asks again soon
            within = min(within, ADDRESS_S)
            return await self._asked(self._port.stand, take, most, within, paced)
        except StoreUnavailable:
            return taken

    async def _asked(
        self,
        ask: Callable[[str, Callable[[bytes], Call], float], Awaitable[Reply]],
        take: Take,
        most: int,
        within: float,
        paced: bool,
    ) -> Taken:
        """Ask as a waiter, with a new ticket each time, so that no old wake-up wakes the take."""
        before = self._seats.get(take.id, Seat(0, b""))
        ticket = before.ticket + 1
        stale = self._gone(take, before.member)
        member = b""
        self._seats[take.id] = Seat(ticket, b"")

        def call_of(address: bytes) -> Call:
            nonlocal member
            seat = b"%d %b" % (ticket, address) if address else b""
            member = b"%b %b" % (take.id.encode(), seat) if seat else b""
            return self._requests.take(take, 0, most, seat, stale, paced)

        taken = self._taken(await ask(take.id, call_of, within), 0)
        if not taken.deliveries:
            self._seats[take.id] = Seat(ticket, member)
        return taken

    def _gone(self, take: Take, before: bytes = b"") -> bytes:
        """For the next call: the members of takes that no longer wait; the shard removes them."""
        stale = self._stale.get(take.queue)
        found = [before] if before else []
        while stale:
            try:
                found.append(stale.popleft())
            except IndexError:
                break  # another thread was faster
        return b"\n".join(found)

    async def wait(self, take: Take, seconds: float) -> bool:
        """Sleep until a job can be due; see the contract."""
        ticket = self._seats.get(take.id, Seat(0, b"")).ticket
        return await self._port.wait(take.id, ticket, seconds) is not None

    def unlisten(self, take: Take) -> None:
        """Stop waiting for this take; see the contract."""
        seat = self._seats.pop(take.id, None)
        if seat is None:
            return
        if seat.member:
            self._stale.setdefault(take.queue, deque(maxlen=_STALE_MAX)).append(seat.member)
        self._port.unlisten(take.id)

    async def give_back(self, take: Take, within: float) -> int:
        """Release all deliveries of this take; see the contract."""
        calls = [self._requests.back(take, shard) for shard in range(self._layout.shards)]
        said = await self._port.ask_many(calls, within)
        counts = [replies.counted(reply, self._port.label) for reply in said]
        await self._wake(take.queue, sum(due for _, due in counts[1:]), within)
        return sum(count for count, _ in counts)

    # -- settling --------------------------------------------------------------------------

    async def settle(self, settles: Sequence[Settle], within: float) -> list[bool | Exception]:
        """Settle a batch; see the contract."""
        count = len(settles)
        if self._layout.shards == 1 and 0 < count <= _CALL_MAX:
            queue = settles[0].queue
            if all(one.queue == queue for one in settles[1:]):
                reply = await self._port.ask(self._requests.settle(queue, 0, settles), within)
                return [*replies.settled(reply, count, self._port.label)[0]]
        found, due = await self._in_shards(settles, self._requests.settle, within)
        for queue, count in due.items():
            await self._wake(queue, count, within)
        return found

    async def extend(
        self, extends: Sequence[Extend], within: float
    ) -> list[Held | Gone | Exception]:
        """Renew a batch of leases; see the contract."""
        found, _ = await self._in_shards(extends, self._requests.extend, within)
        return [
            one
            if isinstance(one, Exception)
            else Held(extend.fence, extend.ttl)
            if one
            else Gone(Loss.EXPIRED)
            for extend, one in zip(extends, found, strict=True)
        ]

    async def _in_shards(
        self, items: Sequence[T], call_of: Callable[[str, int, Sequence[T]], Call], within: float
    ) -> tuple[list[bool | Exception], dict[str, int]]:
        """Send the items, one call per shard, in one round trip. Return the answers, and for each
        queue the number of waiters to wake in the home shard."""
        places: dict[tuple[str, int, int], list[int]] = {}
        for at, one in enumerate(items):
            shard, _ = self._layout.find(one.group, one.seq)
            places.setdefault((one.queue, shard, at // _CALL_MAX), []).append(at)
        calls = [call_of(key[0], key[1], [items[at] for at in of]) for key, of in places.items()]
        said = await self._port.ask_many(calls, within)
        found: list[bool | Exception] = [False] * len(items)
        due: dict[str, int] = {}
        for ((queue, shard, _), of), reply in zip(places.items(), said, strict=True):
            try:
                answers, more = replies.settled(reply, len(of), self._port.label)
            except HoldfastError as wrong:
                for at in of:
                    found[at] = wrong
                continue
            for at, answer in zip(of, answers, strict=True):
                found[at] = answer
            if shard:
                due[queue] = due.get(queue, 0) + more
        return found, due

    async def _wake(self, queue: str, count: int, within: float) -> None:
        """Wake waiters in the home shard. If that fails, the waiters soon ask again."""
        if count > 0:
            try:
                await self._port.ask(self._requests.wake(queue, count), within)
            except StoreUnavailable:
                return

    # -- looking and repair ----------------------------------------------------------------

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[QueueRecord]:
        """The numbers of jobs in each state; see the contract."""
        return await self._looking.survey(prefix, within, exact)

    async def jobs(
        self, queue: str, state: JobState | None, group: str | None, most: int, within: float
    ) -> list[JobRecord]:
        """Some jobs of a queue; see the contract."""
        return await self._looking.jobs(queue, state, group, most, within)

    async def letters(self, queue: str, within: float) -> list[str]:
        """The ids of all dead letters; see the contract."""
        return await self._looking.ids_of_letters(queue, within)

    async def revive(self, queue: str, ids: Sequence[str] | None, within: float) -> int:
        """Retry dead letters; see the contract."""
        found = await self._looking.letters(queue, _set(ids), within)
        return await self._mend(b"revive", queue, "", found, within)

    async def purge(
        self,
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        most: int,
        within: float,
    ) -> int:
        """Remove jobs; see the contract. A search for the oldest jobs reads the whole queue, and
        therefore finds up to `_PURGE_MAX` jobs."""
        found = await self._looking.oldest(queue, state, _set(ids), min(most, _PURGE_MAX), within)
        done = 0
        while any(found.values()):
            some = {shard: fields[:BATCH_MAX] for shard, fields in found.items()}
            done += await self._mend(b"purge", queue, state or "", some, within)
            found = {shard: fields[BATCH_MAX:] for shard, fields in found.items()}
        return done

    async def _mend(
        self, act: bytes, queue: str, state: str, found: dict[int, list[bytes]], within: float
    ) -> int:
        shards = [shard for shard, fields in found.items() if fields]
        calls = [self._requests.mend(act, queue, one, state, found[one]) for one in shards]
        if not calls:
            return 0
        said = await self._port.ask_many(calls, within)
        counts = [replies.counted(reply, self._port.label) for reply in said]
        due = sum(due for shard, (_, due) in zip(shards, counts, strict=True) if shard)
        await self._wake(queue, due, within)
        return sum(count for count, _ in counts)


class ServerQueues(RedisQueues):
    """The queues of one server, where a queue is one shard: see also
    :class:`holdfast.core.queue.ports.Onward`."""

    async def settle_and_take(
        self, settles: Sequence[Settle], take: Take, within: float
    ) -> tuple[list[bool | Exception], Taken]:
        """Settle, then take due jobs; see the contract."""
        call = self._requests.settle_and_take(settles, take, self._gone(take))
        reply = await self._port.ask(call, within)
        ours, found = replies.went_on(reply, len(settles), self._layout, self._port.label)
        if found is None:
            return [*ours], await self._take_from(take, 0, take.most, within)
        return [*ours], Taken(found, 0.0)


def _set(ids: Iterable[str] | None) -> frozenset[str] | None:
    return None if ids is None else frozenset(ids)
