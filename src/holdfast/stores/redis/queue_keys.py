"""The layout of a serial queue: its shards, their keys, and the fields of a job.

On one server a queue has one shard. In a cluster it has several, in their own buckets, so that
nodes share the work: all jobs of a group are in one shard, ungrouped jobs are spread. The first
shard, in the bucket of the queue's name, is the *home* of the queue: a take waits in this shard for
a job of any shard.

    holdfast:{17}@g:N     the data of the groups of the queue ``N``; see ``lua/queue.lua``
"""

from __future__ import annotations

import struct
from binascii import crc32
from typing import NamedTuple

from ...core.queue.model import Job
from ...errors import HoldfastError
from .keys import BUCKETS, bucket_of, recovery_of, tag_of

#: Number of shards of a queue in a cluster. It can't be changed: the keys depend on it.
SHARDS = 8
#: One letter for each key, in the order of the scripts; the recovery record comes last.
_LETTERS = "gjdpetizkbwrmn"
#: The text before the name in a key. The keys in `HASHES` are hashes, the others sorted sets.
MARKS = tuple(f"@{letter}:".encode() for letter in _LETTERS)
HASHES = frozenset(f"@{letter}:".encode() for letter in "gjtimn")
#: A row without its time of acceptance: delay in µs; dedup window in milliseconds, plus 1 (0: the
#: caller chose no id); length of the id in bytes.
_REST = struct.Struct(">dIH")
_ROW = struct.Struct(">ddIH")
_ROW_BYTES = _ROW.size
#: `_REST` without the length of the id, for a job without a delay whose id no caller chose.
_PLAIN = bytes(12)


#: Microseconds; later than every time in a row.
_END_OF_TIME = 9e15


class Damaged(HoldfastError):
    """Data in the store was damaged from outside."""


class Row(NamedTuple):
    """A job in the store; ``accepted`` is in µs."""

    accepted: float
    id: str
    payload: bytes


def row_of(job: Job, window: float) -> bytes:
    """The bytes of a job for the script that accepts it."""
    name = job.id.encode()
    if not job.known and not job.delay:
        return b"%b%b%b%b" % (_PLAIN, len(name).to_bytes(2, "big"), name, job.payload)
    known = round(window * 1000) + 1 if job.known else 0
    return _REST.pack(round(job.delay * 1e6), known, len(name)) + name + job.payload


def read_row(raw: bytes) -> Row:
    """A job from its bytes in the store; raises `Damaged` if they can't be those of a job."""
    try:
        accepted, _, _, size = _ROW.unpack_from(raw)
        end = _ROW_BYTES + size
        if not 0 <= accepted < _END_OF_TIME or end > len(raw):
            raise ValueError("not the numbers of a job")
        return tuple.__new__(Row, (accepted, raw[_ROW_BYTES:end].decode(), raw[end:]))
    except (struct.error, ValueError) as wrong:
        raise Damaged(
            f"a job of the queue was damaged from outside ({wrong}): {raw[:40]!r}. Its lease ends, "
            "and it is delivered again; find its field in the hash whose key ends with @j: and the "
            "name of the queue, and remove it with HDEL"
        ) from wrong


def bucket_in(queue: bytes, shard: int) -> int:
    """The bucket of a shard.

    >>> [bucket_in(b"refunds", shard) for shard in (0, 1, 7)]
    [89, 105, 73]
    """
    return (bucket_of(queue) + shard * (BUCKETS // SHARDS)) % BUCKETS


def is_shard(queue: bytes, bucket: int) -> bool:
    """True if a shard of this queue can be in this bucket."""
    return bool(queue) and (bucket - bucket_of(queue)) % (BUCKETS // SHARDS) == 0


def shard_keys(prefix: str, queue: bytes, shard: int) -> list[bytes]:
    """All keys of a shard, in the order of the scripts.

    >>> shard_keys("holdfast", b"refunds", 0)[0]
    b'holdfast:{89}@g:refunds'
    """
    bucket = bucket_in(queue, shard)
    start = f"{prefix}:{tag_of(bucket)}@".encode()
    keys = [start + letter.encode() + b":" + queue for letter in _LETTERS]
    return [*keys, recovery_of(prefix, bucket)]


def queue_pattern(prefix: str, names: bytes) -> bytes:
    r"""The SCAN pattern for queues whose name begins with ``names``.

    It can match other keys, too: filter the result with `queue_in`.

    >>> queue_pattern("holdfast", b"a*b")
    b'holdfast:{*}@g:a\\*b*'
    """
    plain = b"".join(b"\\" + bytes((c,)) if c in b"*?[]\\" else bytes((c,)) for c in names)
    return f"{prefix}:{{*}}@g:".encode() + plain + b"*"


def queue_in(prefix: str, key: bytes) -> str | None:
    """The name of the queue whose state has this key; None for any other key.

    >>> queue_in("holdfast", b"holdfast:{89}@g:refunds")
    'refunds'
    """
    start = f"{prefix}:{{".encode()
    number, brace, name = key[len(start) :].partition(b"}@g:")
    if not key.startswith(start) or not brace or not number.isdigit():
        return None
    if not is_shard(name, int(number)):
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def field_of(group: str, number: int) -> bytes:
    """The field of a job in the hashes of its shard."""
    return b"%d:%b" % (number, group.encode())


class Layout(NamedTuple):
    """Distributes the jobs of each queue over ``shards`` shards."""

    shards: int

    def home_of(self, job: Job) -> int:
        """The shard of a job: by its group or, if it has no group, by its id."""
        if self.shards == 1:
            return 0
        return crc32((job.group or job.id).encode()) % self.shards

    def find(self, group: str, seq: int) -> tuple[int, bytes]:
        """Shard and field of a delivery."""
        if self.shards == 1:
            return 0, field_of(group, seq)
        if group:
            return crc32(group.encode()) % self.shards, field_of(group, seq)
        number, shard = divmod(seq, self.shards)
        return shard, field_of(group, number)

    def seq(self, shard: int, group: str, number: int) -> int:
        """The number of a delivery in the contract; for an ungrouped job it contains the shard."""
        return number if group or self.shards == 1 else number * self.shards + shard
