"""A guard whose values are in an external cache, and whose refresh leases are in the store.

For each entry the store keeps its usual record, with a *marker* of one byte in place of the value.
The record also has the age and the version of the value that is in the cache. So all guarantees of
refresh leases hold: one caller computes, the others wait, and a caller that dies is replaced. A
read of a fresh value costs one read of the cache; no request goes to the store.

An external cache has no clock, and can't compare and write in one step. So it has two limits:

* **Ages depend on wall clocks**: the clock of the process that stored the value, and the clock of
  the process that reads it.
* **An invalidation during a computation** makes the new value outdated. If the invalidation comes
  before the cache is written, the value is not written. If it comes while the cache is being
  written, the writer removes the value immediately after. The outdated value stays until it expires
  in three cases: the writer dies before the removal, an error of the cache prevents the removal, or
  the network delays the write until after the removal.

If the cache loses a value, or keeps it for too short a time, one caller computes it again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import quote

from ..model import Gone, Held
from .codec import ELSEWHERE
from .model import (
    Abandon,
    Begun,
    Busy,
    Entry,
    EntryRecord,
    EntryState,
    Finish,
    GuardCounts,
    GuardLimits,
    GuardRecord,
    Prolong,
    Value,
    Wish,
)
from .ports import Guards

log = logging.getLogger("holdfast")

#: The limits of values in an external cache; the store's own limit doesn't apply.
LIMITS = GuardLimits()
#: Length in seconds of a refresh lease while its value is written into the cache.
WRITE_S = 5.0
#: Maximum number of requests to the store in one `begin`. The reply is `Busy` if the store reports
#: a fresh value each time, and that value is never in the cache.
LOOKS = 3
#: The `retry_in` of the `Busy` after `LOOKS` requests, in seconds.
AGAIN_S = 0.05
#: A longer key is replaced by its hash: memcached allows 250 bytes, and a cache may add a prefix.
KEY_CHARS_MAX = 200

_MAGIC = b"HF1"
#: Version; fresh until, stale until (in seconds since 1970, by the writer's clock); cost (seconds).
_HEAD = struct.Struct(">Qddd")
_FROM = len(_MAGIC) + _HEAD.size


class CachePort(Protocol):
    """An external cache, for threads or for asyncio. Each method may raise ``StoreUnavailable``."""

    @property
    def given(self) -> object:
        """The user's cache object. Guards with the same object share one cache."""
        ...

    async def read(self, keys: Sequence[str], within: float) -> Mapping[str, object]:
        """Return the values of those keys that exist."""
        ...

    async def write(self, key: str, data: bytes, seconds: int, within: float) -> None:
        """Keep the data for ``seconds``."""
        ...

    async def drop(self, key: str, within: float) -> None:
        """Forget the value of the key, if there is one."""
        ...

    def wall(self) -> float:
        """Return the seconds since 1970, by this machine's clock."""
        ...


def key_of(entry: Entry) -> str:
    """Return the cache's key for an entry: printable, without blanks, short, and unique."""
    plain = f"holdfast:{quote(entry.guard, safe='')}:{quote(entry.key, safe='')}"
    if len(plain) <= KEY_CHARS_MAX:
        return plain
    return f"holdfast:{hashlib.sha256(plain.encode()).hexdigest()}"


def wrap(finish: Finish, now: float) -> bytes:
    """Return a value with its ages, in the format of the cache."""
    fresh = now + finish.ttl
    return _MAGIC + _HEAD.pack(finish.fence, fresh, fresh + finish.stale, finish.cost) + finish.data


def unwrap(raw: object, now: float) -> Value | None:
    """Read the format of the cache; None if it isn't a value of holdfast."""
    if isinstance(raw, str):
        try:
            raw = base64.b64decode(raw, validate=True)
        except (ValueError, binascii.Error):
            return None
    if not isinstance(raw, (bytes, bytearray, memoryview)):
        return None
    data = bytes(raw)
    if not data.startswith(_MAGIC) or len(data) <= _FROM:
        return None
    version, fresh, stale, cost = _HEAD.unpack_from(data, len(_MAGIC))
    if not all(map(math.isfinite, (fresh, stale, cost))):
        return None
    return Value(data[_FROM:], fresh - now, stale - now, cost, version)


class Elsewhere:
    """The guard verbs of a store, with the values in an external cache."""

    limits = LIMITS

    def __init__(self, guards: Guards, cache: CachePort) -> None:
        self._guards = guards
        self._cache = cache
        self._warned = False

    async def read(self, entries: Sequence[Entry], within: float) -> list[Value | None]:
        """See ``Guards``. It reads only the cache, not the store."""
        keys = [key_of(entry) for entry in entries]
        found = await self._cache.read(keys, within)
        now = self._cache.wall()
        return [self._seen(found.get(key), now) for key in keys]

    def _seen(self, raw: object, now: float) -> Value | None:
        if raw is None:
            return None
        value = unwrap(raw, now)
        if value is None and not self._warned:
            self._warned = True
            log.warning(
                "the cache returned a %s that holdfast did not write; it counts as a miss. Does "
                "the cache return the bytes that were set, or does another program use this key?",
                type(raw).__name__,
            )
        return value

    async def _one(self, entry: Entry, within: float) -> Value | None:
        (value,) = await self.read((entry,), within)
        return value

    async def begin(self, wish: Wish, within: float) -> Begun:
        """See ``Guards``. If the store has a fresh record, but the cache has lost its value, the
        caller gets the refresh lease and computes the value again."""
        for _ in range(LOOKS):
            begun = await self._guards.begin(wish, within)
            if not isinstance(begun, Value):
                return begun
            found = await self._one(wish.entry, within)
            if found is not None and found.version == begun.version and begun.data == ELSEWHERE:
                return begun._replace(data=found.data)
            wish = wish._replace(known=begun.version)
        return Busy(AGAIN_S)

    async def finish(self, finish: Finish, within: float) -> bool:
        """See ``Guards``. It renews the refresh lease, writes the cache, and then ends the lease.
        So a caller that learns from the store that the value is fresh finds it in the cache."""
        prolong = Prolong(finish.entry, finish.id, finish.fence, WRITE_S)
        (ours,) = await self._guards.prolong([prolong], within)
        if isinstance(ours, Exception):
            raise ours
        if isinstance(ours, Held):
            seconds = max(1, math.ceil(finish.ttl + finish.stale + finish.keep))
            data = wrap(finish, self._cache.wall())
            await self._cache.write(key_of(finish.entry), data, seconds, within)
        stored = await self._guards.finish(finish._replace(data=ELSEWHERE), within)
        if not stored:
            await self._take_back(finish, within)
        return stored

    async def _take_back(self, finish: Finish, within: float) -> None:
        found = await self._one(finish.entry, within)
        if found is not None and found.version == finish.fence:
            await self._cache.drop(key_of(finish.entry), within)

    async def invalidate(self, entries: Sequence[Entry], within: float) -> list[bool]:
        """See ``Guards``. The store is first: after that, `finish` of an earlier computation is
        refused, and doesn't write the cache."""
        answers = await self._guards.invalidate(entries, within)
        for entry in entries:
            await self._cache.drop(key_of(entry), within)
        return answers

    async def abandon(self, abandon: Abandon, within: float) -> bool:
        """See ``Guards``."""
        return await self._guards.abandon(abandon, within)

    async def prolong(
        self, prolongs: Sequence[Prolong], within: float
    ) -> list[Held | Gone | Exception]:
        """See ``Guards``."""
        return await self._guards.prolong(prolongs, within)

    async def wait(self, wish: Wish, seconds: float) -> bool:
        """See ``Guards``."""
        return await self._guards.wait(wish, seconds)

    def unlisten(self, wish: Wish) -> None:
        """See ``Guards``."""
        self._guards.unlisten(wish)

    async def look(self, entry: Entry, within: float) -> EntryRecord:
        """See ``Guards``. The refresh lease comes from the store, the value from the cache."""
        record = await self._guards.look(entry, within)
        value = await self._one(entry, within)
        if value is None:
            value, state = Value(b"", 0.0, 0.0, 0.0, 0), EntryState.MISSING
        elif value.fresh_in > 0:
            state = EntryState.FRESH
        else:
            state = EntryState.STALE if value.stale_in > 0 else EntryState.EXPIRED
        return record._replace(
            state=state,
            size=len(value.data),
            fresh_in=value.fresh_in,
            stale_in=value.stale_in,
            cost=value.cost,
            version=value.version,
        )

    async def survey(self, prefix: str, within: float, exact: bool = False) -> list[GuardRecord]:
        """See ``Guards``."""
        return await self._guards.survey(prefix, within, exact)

    async def tally(self, guard: str, tally: GuardCounts, within: float) -> None:
        """See ``Guards``."""
        await self._guards.tally(guard, tally, within)
