r"""How a protocol's bytes are parted into messages, and which messages answer which.

``LINES`` and ``RESP`` (Redis and Valkey, both of its versions) are whole protocols. ``CHUNKS``
serves any other one whose client sends one request at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

#: How long the first whole message of these bytes is, 0 if none is whole yet.
Splitter = Callable[[bytes], int]


def _always(message: bytes) -> bool:
    return True


def _never(message: bytes) -> bool:
    return False


class Wire(NamedTuple):
    """A protocol, as far as a proxy must know it.

    ``requests`` and ``replies`` split what the client and the server send. ``answered``: does the
    server answer this request in its turn? ``pushed``: has the server sent this message unasked?
    What is neither is taken to answer the requests in their order.
    """

    requests: Splitter
    replies: Splitter
    answered: Callable[[bytes], bool] = _always
    pushed: Callable[[bytes], bool] = _never


def chunks(data: bytes) -> int:
    """A splitter: what arrives at once is one message."""
    return len(data)


def lines(data: bytes) -> int:
    r"""A splitter: each line is a message.

    >>> lines(b"one\ntwo\n"), lines(b"tw")
    (4, 0)
    """
    return data.find(b"\n") + 1


def resp(data: bytes) -> int:
    r"""A splitter: each command of Redis, or each of its replies and pushes, is a message.

    >>> resp(b"*2\r\n$3\r\nGET\r\n$1\r\nx\r\n+more"), resp(b"*1\r\n$3\r\nGE"), resp(b"PING\r\n")
    (20, 0, 6)
    """
    at, missing = 0, 1
    while missing:
        end = data.find(b"\r\n", at)
        if end < 0:
            return 0
        mark, count = data[at : at + 1], data[at + 1 : end]
        at = end + 2
        missing -= 1
        if mark in (b"$", b"=", b"!"):
            if int(count) >= 0:
                at += int(count) + 2
        elif mark in (b"*", b"~", b">"):
            missing += max(0, int(count))
        elif mark == b"%":
            missing += 2 * int(count)
        elif mark == b"|":
            missing += 2 * int(count) + 1  # attributes stand before what they are about
    return at if at <= len(data) else 0


#: A command that is only confirmed by pushes. (It is taken to be allowed.)
_SUBSCRIBES = re.compile(rb"\*\d+\r\n\$\d+\r\n[ps]?(un)?subscribe\r\n", re.IGNORECASE)
#: Before version 3 of the protocol a push is an array that begins with one of these words.
_PUSH = re.compile(rb">|\*[34]\r\n\$\d+\r\n([ps]?(un)?subscribe|[ps]?message)\r\n", re.IGNORECASE)


def _answered(request: bytes) -> bool:
    return _SUBSCRIBES.match(request) is None


def _pushed(message: bytes) -> bool:
    return _PUSH.match(message) is not None


CHUNKS = Wire(chunks, chunks)
LINES = Wire(lines, lines)
RESP = Wire(resp, resp, _answered, _pushed)
