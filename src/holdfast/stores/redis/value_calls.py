"""The verbs of refresh guards as requests; ``scripts.py`` explains calls and answers."""

from __future__ import annotations

import math

from ...core.guard.model import TALLY_KEPT_S, Abandon, Entry, Finish, GuardCounts, Prolong, Wish
from ...core.policy import TOMB_S
from .keys import PREFIX
from .library import ABANDON, BEGIN, FINISH, INVALIDATE, PROLONG, TALLY, VIEW, Script, tail
from .scripts import Call
from .value_keys import Place, place_of, shard_of, tally_keys, written

_KNOWN_MAX = 2048


def _us(seconds: float) -> bytes:
    return b"%d" % math.ceil(round(seconds * 1e6, 3))


class ValueRequests:
    """Builds calls for one store. Every method may be called from any thread."""

    def __init__(self, prefix: str = PREFIX) -> None:
        self._prefix = prefix
        self._places: dict[Entry, Place] = {}

    def place(self, entry: Entry) -> Place:
        """The place of an entry."""
        found = self._places.get(entry)
        if found is None:
            found = place_of(self._prefix, entry)
            if len(self._places) >= _KNOWN_MAX:
                self._places.clear()
            self._places[entry] = found
        return found

    def begin(self, wish: Wish, seat: bytes) -> Call:
        """Take the refresh lease. ``seat``: ticket and address of the request, if it waits. Answer:
        `value_replies.begun`."""
        args = (
            wish.id.encode(),
            _us(wish.lease),
            b"%d" % wish.known,
            wish.owner.encode(),
            seat,
            b"%d" % self.place(wish.entry).check,
        )
        return self._both(BEGIN, wish.entry, *args)

    def finish(self, finish: Finish) -> Call:
        """Store a value. Answer: 1, or 0 if the refresh lease is no longer ours."""
        value, kept = written(finish, self.place(finish.entry).check)
        args = finish.id.encode(), b"%d" % finish.fence, b"%d" % kept, value
        return self._both(FINISH, finish.entry, *args)

    def abandon(self, abandon: Abandon) -> Call:
        """Give up a refresh lease. Answer: 1, or 0 if it wasn't ours."""
        args = (
            abandon.id.encode(),
            _us(abandon.pause),
            _us(abandon.memory),
            abandon.reason.encode(errors="replace"),
            _us(abandon.lease + TOMB_S) if abandon.suspect else b"0",
        )
        return self._duty(ABANDON, abandon.entry, *args)

    def prolong(self, prolong: Prolong) -> Call:
        """Renew a refresh lease. Answer: 1, or 0 if the lease has ended."""
        args = prolong.id.encode(), b"%d" % prolong.fence, _us(prolong.lease)
        return self._duty(PROLONG, prolong.entry, *args)

    def invalidate(self, entry: Entry) -> Call:
        """Remove a value. Answer: 1 if there was one, else 0."""
        return self._both(INVALIDATE, entry)

    def look(self, entry: Entry) -> Call:
        """Inspect an entry. Answer: `value_replies.shown`."""
        return self._both(VIEW, entry)

    def tally(self, guard: str, tally: GuardCounts) -> Call:
        """Add to the counts of a guard."""
        args = [b"add", guard.encode(), b"%d" % (TALLY_KEPT_S * 1000)]
        for name, count in zip(GuardCounts._fields, tally, strict=True):
            if count:
                args += (name.encode(), b"%d" % count)
        return self._tallied(shard_of(guard), guard, args)

    def names(self, shard: int) -> Call:
        """The guards of a shard. Answer: their names."""
        return self._tallied(shard, "", [b"names"])

    def sums(self, guard: str) -> Call:
        """The counts of a guard. Answer: `value_replies.summed`."""
        return self._tallied(shard_of(guard), guard, [b"sums"])

    def _tallied(self, shard: int, guard: str, args: list[bytes]) -> Call:
        bucket, keys = tally_keys(self._prefix, shard, guard)
        return _packed(TALLY, bucket, 2, keys, *args)

    def _both(self, script: Script, entry: Entry, *args: bytes) -> Call:
        place = self.place(entry)
        return _packed(script, place.bucket, 2, place.value + place.duty, *args)

    def _duty(self, script: Script, entry: Entry, *args: bytes) -> Call:
        place = self.place(entry)
        return _packed(script, place.bucket, 1, place.duty, *args)


def _packed(script: Script, bucket: int, keys: int, words: bytes, *args: bytes) -> Call:
    head = b"*%d\r\n$7\r\nEVALSHA\r\n" % (3 + keys + len(args) + 2)
    head += tail(script.sha) + tail(b"%d" % keys) + words + b"".join(map(tail, args))
    return Call(script, bucket, head)
