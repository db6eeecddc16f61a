"""Names to keys, and keys back to names.

For the name ``N`` in bucket 17, with the prefix that the URL gives (``holdfast`` by default):

    holdfast:{17}:N       hash: the state of the line of claims, and the holders
    holdfast:{17}~N       hash: the waiters; exists only while a claim waits
    holdfast:{17}!N       sorted set: the tombstones of claims that must no longer enter
    holdfast:{17}#guard   string: the recovery record

The bytes of the name follow unchanged. So no two names share a key, and no escape is needed: a
cluster hashes only the text in the first pair of braces, which is the bucket. All keys of a name,
and the recovery record of its bucket, are therefore in one slot, with and without a cluster.
"""

from __future__ import annotations

from binascii import crc32

#: Number of buckets over which names are spread. It can't be changed: the keys depend on it.
BUCKETS = 128
PREFIX = "holdfast"


def bucket_of(name: bytes) -> int:
    """The bucket of a name.

    >>> bucket_of(b"invoice:42")
    110
    """
    return crc32(name) % BUCKETS


def tag_of(bucket: int) -> str:
    """The hash tag of a bucket, with its braces.

    >>> tag_of(17)
    '{17}'
    """
    return f"{{{bucket}}}"


def keys_of(prefix: str, name: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """The keys of a name: its state, waiters, tombstones and recovery record.

    >>> keys_of("holdfast", b"x")[:3]
    (b'holdfast:{3}:x', b'holdfast:{3}~x', b'holdfast:{3}!x')
    """
    start = f"{prefix}:{tag_of(bucket_of(name))}".encode()
    return start + b":" + name, start + b"~" + name, start + b"!" + name, start + b"#guard"


def state_of(prefix: str, bucket: int, name: bytes) -> bytes:
    """The key of a line's state, for a caller that knows the bucket.

    >>> state_of("holdfast", 3, b"x")
    b'holdfast:{3}:x'
    """
    return b"%b:{%d}:%b" % (prefix.encode(), bucket, name)


def recovery_of(prefix: str, bucket: int) -> bytes:
    """The key of a bucket's recovery record.

    >>> recovery_of("holdfast", 17)
    b'holdfast:{17}#guard'
    """
    return f"{prefix}:{tag_of(bucket)}#guard".encode()


def pattern_of(prefix: str, names: bytes) -> bytes:
    r"""The SCAN pattern for lines whose name begins with ``names``.

    It can match other keys, too: filter the result with `name_of`.

    >>> pattern_of("holdfast", b"a*b")
    b'holdfast:{*}:a\\*b*'
    """
    plain = b"".join(b"\\" + bytes((c,)) if c in b"*?[]\\" else bytes((c,)) for c in names)
    return f"{prefix}:{{*}}:".encode() + plain + b"*"


def name_of(prefix: str, key: bytes) -> str | None:
    """The name of the line whose state has this key; None for any other key.

    >>> name_of("holdfast", b"holdfast:{3}:x")
    'x'
    """
    start = f"{prefix}:{{".encode()
    number, brace, name = key[len(start) :].partition(b"}:")
    if not key.startswith(start) or not brace or not name:
        return None
    if number != str(bucket_of(name)).encode():
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None
