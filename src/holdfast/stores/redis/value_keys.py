"""The layout of the values of refresh guards: their keys and fields.

For the entry ``K`` of the guard ``G``, in its own bucket, here 17:

    holdfast:{17}=8:homepage:K   string: the value, after a head of 47 bytes
    holdfast:{17}%8:homepage:K   hash: the refresh lease for the next value, and its waiters

The number 8 is the length of the guard's name in bytes, so no two entries share a key. The counts
of a guard are in one of few shards, so that all are found without a search through the database:

    holdfast:{16}+G              hash: the counts of the guard ``G``
    holdfast:{16}&guards         sorted set: the guards of the shard
"""

from __future__ import annotations

import re
import struct
from binascii import crc32
from collections.abc import Sequence
from typing import NamedTuple

from ...core.guard.model import Entry, Finish, Value
from .complaints import ServerSaid
from .keys import BUCKETS, tag_of
from .library import tail

#: Number of shards for the counts of guards. It can't be changed: the keys depend on it.
SHARDS = 8
MARK = b"\xf1hf"
#: The state of a line, of a queue or of a refresh lease, in a later layout; for a value, the text
#: after the first two bytes of `MARK`.
NEWER = re.compile(rb"@(\d+) ")
#: Milliseconds by which the remaining time of a value may exceed the whole time of the value.
_LATE_MS = 1000
#: The upper limit of a version; see ``sane`` in ``lua/value.lua``.
_MOST = 9e15
#: The head of a value, as in ``lua/value.lua``: times are milliseconds, but the cost is seconds.
_HEAD = struct.Struct(">3sIddddd")
HEAD_BYTES = _HEAD.size
_unpack = _HEAD.unpack_from
#: Makes a named tuple without calling its ``__new__``, which is slower; every value needs one.
_new = tuple.__new__
_PTTL, _GET = b"*2\r\n$4\r\nPTTL\r\n", b"*2\r\n$3\r\nGET\r\n"


class Place(NamedTuple):
    """The place of an entry; the keys and the commands that read its value are packed.

    Two commands in one write read the value: PTTL, then GET. In this order, a value that is
    replaced between the two appears older than it is, and never younger.
    """

    bucket: int
    #: The checksum of the name; a value contains it, to show to which entry it belongs.
    check: int
    value: bytes
    duty: bytes
    read: bytes

    @property
    def asking(self) -> Sequence[tuple[bytes, ...]]:
        """The commands of ``read`` as words, for a node that is taking over the slot."""
        key = self.value.split(b"\r\n", 1)[1][:-2]
        return (b"ASKING",), (b"PTTL", key), (b"ASKING",), (b"GET", key)


def place_of(prefix: str, entry: Entry) -> Place:
    r"""The place of an entry.

    >>> place_of("holdfast", Entry("homepage", "de")).value
    b'$26\r\nholdfast:{3}=8:homepage:de\r\n'
    """
    guard = entry.guard.encode()
    name = b"%d:%b:%b" % (len(guard), guard, entry.key.encode())
    check = crc32(name)
    bucket = check % BUCKETS
    start = f"{prefix}:{tag_of(bucket)}".encode()
    value = tail(start + b"=" + name)
    return Place(bucket, check, value, tail(start + b"%" + name), _PTTL + value + _GET + value)


def reading(places: Sequence[Place]) -> bytes:
    """The commands that read several values."""
    return places[0].read if len(places) == 1 else b"".join([one.read for one in places])


def shard_of(guard: str) -> int:
    """The shard of a guard's counts."""
    return crc32(guard.encode()) % SHARDS


def tally_keys(prefix: str, shard: int, guard: str) -> tuple[int, bytes]:
    """The bucket of a shard, and two packed keys there: a guard's counts, the names of guards."""
    bucket = shard * (BUCKETS // SHARDS)
    start = f"{prefix}:{tag_of(bucket)}".encode()
    return bucket, tail(start + b"+" + guard.encode()) + tail(start + b"&guards")


def written(finish: Finish, check: int) -> tuple[bytes, int]:
    """The bytes of a value in the store, and for how many milliseconds they are kept."""
    ttl = max(1, _ms(finish.ttl))
    stale, keep = _ms(finish.stale), _ms(finish.keep)
    rest = stale + keep
    head = _HEAD.pack(MARK, check, finish.fence, ttl, rest, keep, finish.cost)
    return head + finish.data, ttl + rest


def seen(raw: bytes | None, left: int, check: int) -> Value | None:
    """The value from the replies of GET and PTTL; None if there is none.

    For a value that was damaged from outside, return None, too: the caller computes a new value.
    Raises `ServerSaid` if another program wrote it.
    """
    if not raw:
        return None
    if raw[:3] != MARK:
        found = NEWER.match(raw, 2) if raw[:2] == MARK[:2] else None
        raise later(found[1]) if found else _foreign()
    if len(raw) < HEAD_BYTES:
        return None
    _, whose, version, ttl, rest, keep, cost = _unpack(raw)
    if whose != check or not 0 <= version < _MOST or version % 1:
        return None
    if left < 0 or left > ttl + rest:
        # -1: the value never expires, so holdfast didn't write it. -2: the value was written after
        # PTTL. A remaining time that is much too long: the clock was set back after the value was
        # written, so the value isn't fresh.
        if left == -1:
            return None
        left = ttl + rest if left <= ttl + rest + _LATE_MS else 0
    fresh, stale = (left - rest) / 1000, (left - keep) / 1000
    return _new(Value, (raw[HEAD_BYTES:], fresh, stale, cost, int(version)))


def _foreign() -> ServerSaid:
    """The error reply that the scripts give for a value of another program."""
    return ServerSaid("WRONGTYPE", "a value that is not one of holdfast")


def later(layout: bytes) -> ServerSaid:
    """The error reply that the scripts give for a state of a later layout."""
    return ServerSaid("ERR", f"user_script: it has layout {layout.decode()}")


def _ms(seconds: float) -> int:
    """Milliseconds, rounded down: no value is fresh for longer than requested."""
    return int(round(seconds * 1000, 6))
