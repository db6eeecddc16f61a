"""Buckets in a cluster: their slots, their channels, and the node to which an error redirects.

No driver is imported here.
"""

from __future__ import annotations

import re
from binascii import crc_hqx

from .complaints import MOVED, ServerSaid
from .keys import BUCKETS, tag_of
from .topology import Place

SLOTS = 16384
ASK = "ASK"
#: Errors that end soon by themselves: the call is sent again while time is left.
SOON = frozenset({"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"})
#: Errors of a node that did nothing: the call must be sent to another node, or again.
ELSEWHERE = SOON | {MOVED, ASK}
_BUCKET = re.compile(rb"\{([0-9]{1,3})\}")


def slot_of(bucket: int) -> int:
    """The slot of all keys of a bucket.

    >>> slot_of(17)
    12304
    """
    return crc_hqx(b"%d" % bucket, 0) % SLOTS


BUCKET_SLOTS = tuple(slot_of(bucket) for bucket in range(BUCKETS))


def address_in(bucket: int, prefix: str, token: str) -> bytes:
    """A channel in the slot of a bucket.

    >>> address_in(17, "holdfast", "2a")
    b'{17}holdfast:poke:2a'
    """
    return f"{tag_of(bucket)}{prefix}:poke:{token}".encode()


def bucket_in(address: bytes) -> int:
    """The bucket of a channel; -1 if it isn't a channel of holdfast.

    >>> bucket_in(b"{17}holdfast:poke:2a")
    17
    """
    found = _BUCKET.match(address)
    return int(found[1]) if found else -1


def sent_to(said: ServerSaid, asked: Place) -> Place | None:
    """The node to which an error reply of the node ``asked`` redirects; None if it names none.

    >>> sent_to(ServerSaid("MOVED", "12304 127.0.0.1:6381"), ("h", 1))
    ('127.0.0.1', 6381)
    """
    host, colon, port = said.text.rpartition(" ")[2].rpartition(":")
    if not colon or not port.isdigit():
        return None
    host = host.removeprefix("[").removesuffix("]")
    return host if host and host != "?" else asked[0], int(port)
