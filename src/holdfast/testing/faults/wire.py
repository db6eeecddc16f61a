r"""Split a protocol's bytes into messages, and match answers with requests.

``LINES``, ``RESP`` (Redis and Valkey, versions 2 and 3) and ``MYSQL`` (MySQL and MariaDB, without
TLS) find the borders of messages. ``CHUNKS`` fits other protocols with one request at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

#: A function that returns the length of the first message, or 0 if this message is still
#: incomplete.
Splitter = Callable[[bytes], int]


def _always(message: bytes) -> bool:
    return True


def _never(message: bytes) -> bool:
    return False


class Wire(NamedTuple):
    """The facts about a protocol that a proxy needs.

    ``requests`` splits the bytes of the client, and ``replies`` those of the server. ``answered``
    returns True if the server sends a reply to this request. ``pushed`` returns True if the server
    sent this message without a request. All other messages of the server count as the replies to
    the answered requests, in order.
    """

    requests: Splitter
    replies: Splitter
    answered: Callable[[bytes], bool] = _always
    pushed: Callable[[bytes], bool] = _never


def chunks(data: bytes) -> int:
    """Split into pieces as they arrive: bytes that arrive together are one message."""
    return len(data)


def lines(data: bytes) -> int:
    r"""Split into lines: each line is a message.

    >>> lines(b"one\ntwo\n"), lines(b"tw")
    (4, 0)
    """
    return data.find(b"\n") + 1


def resp(data: bytes) -> int:
    r"""Split Redis' protocol: each command, reply or push is a message.

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
            missing += 2 * int(count) + 1  # attributes come before the value that they describe
    return at if at <= len(data) else 0


#: A command that has no reply: the server confirms it by pushes. (An error reply isn't expected.)
_SUBSCRIBES = re.compile(rb"\*\d+\r\n\$\d+\r\n[ps]?(un)?subscribe\r\n", re.IGNORECASE)
#: Before version 3 of the protocol a push is an array that begins with one of these words.
_PUSH = re.compile(rb">|\*[34]\r\n\$\d+\r\n([ps]?(un)?subscribe|[ps]?message)\r\n", re.IGNORECASE)


def _answered(request: bytes) -> bool:
    return _SUBSCRIBES.match(request) is None


def _pushed(message: bytes) -> bool:
    return _PUSH.match(message) is not None


def packets(data: bytes) -> int:
    r"""Split the protocol of MySQL and MariaDB: each packet is a message.

    >>> packets(b"\x01\x00\x00\x00\x0e"), packets(b"\x02\x00\x00\x00\x0e")
    (5, 0)
    """
    length = int.from_bytes(data[:3], "little") + 4
    return length if len(data) >= length > 4 else 0


_MORE_RESULTS = 8
_EOF, _ERROR = 0xFE, 0xFF
_EOF_BYTES = 5


def _lenenc(data: bytes, at: int) -> int:
    """Return the position after the length-encoded integer that begins at ``at``."""
    return at + {0xFC: 3, 0xFD: 4, _EOF: 9}.get(data[at], 1)


def _more(last: bytes) -> bool:
    """Return True if another result follows the result that ends with this packet."""
    if last[0] == _ERROR:
        return False
    at = 3 if len(last) == _EOF_BYTES and last[0] == _EOF else _lenenc(last, _lenenc(last, 1))
    return bool(last[at] & _MORE_RESULTS)


def mysql_answer(data: bytes) -> int:
    r"""Split the server's packets: the answer to one request, with all its results, is a message.

    >>> ok, error = b"\x07\0\0\x01\0\0\0\x02\0\0\0", b"\x03\0\0\x01\xff\0\0"
    >>> mysql_answer(ok + error), mysql_answer(error), mysql_answer(ok[:-1])
    (11, 7, 0)
    """
    at = 0
    while length := packets(data[at:]):
        first, at = data[at + 4 : at + length], at + length
        if data[3] == 0 or first[0] in (_EOF, _ERROR) or (first[0] == 1 < len(first)):
            return at  # the greeting, or a step of the login
        last = first
        if first[0]:
            columns = first[0]
            while columns > 0 or not (last[0] == _EOF and len(last) < 1 << 16):
                if not (length := packets(data[at:])):
                    return 0
                last, at = data[at + 4 : at + length], at + length
                columns -= 1
                if columns == -1 and last[0] == _EOF and len(last) == _EOF_BYTES:
                    last = b"\0"  # this packet only ends the columns
        if not _more(last):
            return at
    return 0


def _greets(message: bytes) -> bool:
    """Return True for a greeting (packet number 0); an answer to a request has a greater number."""
    return message[3:4] == b"\0"


CHUNKS = Wire(chunks, chunks)
LINES = Wire(lines, lines)
RESP = Wire(resp, resp, _answered, _pushed)
MYSQL = Wire(packets, mysql_answer, pushed=_greets)
