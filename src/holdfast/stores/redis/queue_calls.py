"""The verbs of serial queues as requests; ``scripts.py`` explains calls and answers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...core.policy import TOMB_S
from ...core.queue.model import Extend, Job, Pace, Put, Settle, Start, Take, Verdict
from ...core.queue.policy import rate_burst
from .keys import PREFIX
from .library import BACK, EXTEND, LOOK, MEND, NEXT, PACE, PUT, SETTLE, TAKE, WAKE, Script, tail
from .queue_keys import Layout, bucket_in, row_of, shard_keys
from .scripts import Call, opening

_KNOWN_MAX = 2048
#: Number of keys of a shard; number of arguments of a take.
_KEYS, _TAKING = 15, 12
#: Makes a named tuple without calling its ``__new__``, which is slower; every job needs some.
_new = tuple.__new__
_VERDICTS = {
    Verdict.ACK: b"a",
    Verdict.RETRY: b"r",
    Verdict.DEAD: b"d",
    Verdict.RETURN: b"b",
}


def _ms(seconds: float) -> bytes:
    return b"%d" % math.ceil(round(seconds * 1000, 6))


def _us(seconds: float) -> bytes:
    return b"%d" % round(seconds * 1e6)


def _rate(pace: Pace) -> tuple[bytes, bytes]:
    """Microseconds between two starts, and the maximum number of starts at once."""
    return b"%.3f" % (1e6 / pace.rate), b"%.6f" % rate_burst(pace.rate)


class QueueRequests:
    """Builds calls for one store. Every method may be called from any thread."""

    def __init__(self, layout: Layout, prefix: str = PREFIX) -> None:
        self._layout = layout
        self._prefix = prefix
        self._elsewhere = b"1" if layout.shards > 1 else b"0"
        #: By queue and shard: the bucket, all keys, and the key of the deliveries.
        self._places: dict[tuple[str, int], tuple[int, bytes, bytes]] = {}
        #: By queue, shard, script and number of arguments: the bucket, and all bytes before these
        #: arguments.
        self._heads: dict[tuple[str, int, str, int], tuple[int, bytes]] = {}
        #: By the values that many takes have in common: the arguments made of these, packed.
        self._takings: dict[tuple[object, ...], bytes] = {}

    def put(self, put: Put, shard: int, jobs: Sequence[Job]) -> Call:
        """Accept these jobs in a shard. Answer: `queue_replies.accepted`."""
        number = b"%d" % put.number
        bucket, head = self._head(PUT, put.queue, shard, 3 + 2 * len(jobs))
        lane = put.lane.encode()
        parts = [
            b"%b$%d\r\n%b\r\n$%d\r\n%b\r\n$1\r\n%b\r\n"
            % (head, len(lane), lane, len(number), number, self._elsewhere)
        ]
        for job in jobs:
            group, row = job.group.encode(), row_of(job, put.window)
            parts.append(b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(group), group, len(row), row))
        return _new(Call, (PUT, bucket, b"".join(parts)))

    def take(
        self, take: Take, shard: int, most: int, seat: bytes, stale: bytes, paced: bool = True
    ) -> Call:
        """Take jobs that are due in a shard. ``seat``: ticket and address of a take that waits.
        ``stale``: takes that no longer wait. ``paced``: True to obey the rate limit. Answer:
        `queue_replies.taken`."""
        bucket, head = self._head(TAKE, take.queue, shard, _TAKING)
        return _new(Call, (TAKE, bucket, head + self._taking(take, most, seat, stale, paced)))

    def settle_and_take(self, settles: Sequence[Settle], take: Take, stale: bytes) -> Call:
        """Settle deliveries of the only shard of a queue, then take due jobs there. Answer:
        `queue_replies.went_on`."""
        bucket, head = self._head(NEXT, take.queue, 0, _TAKING + 2 * len(settles))
        parts = [head, self._taking(take, take.most, b"", stale, True), *self._settling(settles)]
        return _new(Call, (NEXT, bucket, b"".join(parts)))

    def _taking(self, take: Take, most: int, seat: bytes, stale: bytes, paced: bool) -> bytes:
        """The arguments of a take."""
        common = (most, paced, take.ttl, take.owner, take.pace, take.patience)
        known = self._takings.get(common)
        if known is None:
            known = self._learn_taking(common, take, most, paced)
        return b"$32\r\n%b\r\n%b$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
            take.id.encode(),
            known,
            len(seat),
            seat,
            len(stale),
            stale,
        )

    def _learn_taking(
        self, common: tuple[object, ...], take: Take, most: int, paced: bool
    ) -> bytes:
        pace, patience = take.pace, take.patience
        pause, burst = b"0", b"1"
        if paced and pace.rate < math.inf:
            pause, burst = _rate(pace)
        args = (
            b"%d" % most,
            _us(take.ttl),
            _us(pace.min_interval),
            b"1" if pace.start is Start.TAKE else b"0",
            b"%d" % patience.attempts,
            b"1" if patience.blocks else b"0",
            take.owner.encode(),
            pause,
            burst,
        )
        if len(self._takings) >= _KNOWN_MAX:
            self._takings.clear()
        known = self._takings[common] = b"".join(map(tail, args))
        return known

    def settle(self, queue: str, shard: int, settles: Sequence[Settle]) -> Call:
        """Settle deliveries of one shard. Answer: `queue_replies.settled`."""
        bucket, head = self._head(SETTLE, queue, shard, 1 + 2 * len(settles))
        parts = [head, tail(self._elsewhere), *self._settling(settles)]
        return _new(Call, (SETTLE, bucket, b"".join(parts)))

    def _settling(self, settles: Sequence[Settle]) -> list[bytes]:
        """Two arguments for each delivery, packed: its take and field; its outcome."""
        alone, parts = self._layout.shards == 1, []
        for one in settles:
            if alone:
                loan = b"%b%d:%b" % (one.take.encode(), one.seq, one.group.encode())
            else:
                loan = one.take.encode() + self._layout.find(one.group, one.seq)[1]
            if one.verdict is Verdict.ACK and not one.suspect and not one.reason:
                parts.append(b"$%d\r\n%b\r\n$1\r\na\r\n" % (len(loan), loan))
                continue
            grave = _ms(one.ttl + TOMB_S) if one.suspect else b"0"
            words = (_VERDICTS[one.verdict], _us(one.delay), grave, one.reason.encode())
            parts += (tail(loan), tail(b"%b%b %b %b" % words))
        return parts

    def extend(self, queue: str, shard: int, extends: Sequence[Extend]) -> Call:
        """Renew leases of one shard. Answer: `queue_replies.settled`."""
        bucket, _, key = self._place(queue, shard)
        args: list[bytes] = []
        for one in extends:
            _, field = self._layout.find(one.group, one.seq)
            args += (one.take.encode() + field, _us(one.ttl))
        head = opening(EXTEND, 1, len(args)) + key
        return Call(EXTEND, bucket, head + b"".join(map(tail, args)))

    def back(self, take: Take, shard: int) -> Call:
        """Release the deliveries of a take. Answer: `queue_replies.counted`."""
        args = (take.id.encode(), _ms(take.ttl + TOMB_S), self._elsewhere)
        return self._call(BACK, take.queue, shard, args)

    def pace(self, take: Take, most: int) -> Call:
        """Reserve starts of jobs in the home shard, by the rate limit. Answer:
        `queue_replies.counted`, with the number of starts, and ms until the next start."""
        return self._call(PACE, take.queue, 0, (b"%d" % most, *_rate(take.pace)))

    def wake(self, queue: str, count: int) -> Call:
        """Wake waiters in the home shard for jobs that are due in other shards."""
        return self._call(WAKE, queue, 0, (b"%d" % count,))

    def look(self, queue: str, shard: int, *args: bytes) -> Call:
        """Inspect a shard; ``lua/queue_look.lua`` lists the arguments and the answers."""
        return self._call(LOOK, queue, shard, args)

    def mend(self, act: bytes, queue: str, shard: int, state: str, fields: Sequence[bytes]) -> Call:
        """Remove jobs, or retry dead letters. Answer: `queue_replies.counted`."""
        args = (act, state.encode(), self._elsewhere, *fields)
        return self._call(MEND, queue, shard, args)

    def _call(self, script: Script, queue: str, shard: int, args: Sequence[bytes]) -> Call:
        bucket, head = self._head(script, queue, shard, len(args))
        return _new(Call, (script, bucket, head + b"".join(map(tail, args))))

    def _head(self, script: Script, queue: str, shard: int, args: int) -> tuple[int, bytes]:
        """The bucket of a shard, and the bytes of a call there before its arguments; ``args`` is
        the number of its arguments."""
        known = self._heads.get((queue, shard, script.name, args))
        if known is None:
            bucket, keys, _ = self._place(queue, shard)
            if len(self._heads) >= _KNOWN_MAX:
                self._heads.clear()
            known = bucket, opening(script, _KEYS, args) + keys
            self._heads[queue, shard, script.name, args] = known
        return known

    def _place(self, queue: str, shard: int) -> tuple[int, bytes, bytes]:
        place = self._places.get((queue, shard))
        if place is None:
            name = queue.encode()
            keys = list(map(tail, shard_keys(self._prefix, name, shard)))
            if len(self._places) >= _KNOWN_MAX:
                self._places.clear()
            place = bucket_in(name, shard), b"".join(keys), keys[4]
            self._places[queue, shard] = place
        return place
