"""Replies from bytes: with hiredis if it is installed, else with our own small parser.

A reader gets the bytes that arrive, and returns one reply after the other; ``NOTHING`` means that
no whole reply has arrived. A push (RESP3) is a ``Push``, an error is the value ``ServerSaid``.
Bytes that aren't a reply raise ``ValueError``.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..complaints import said

NOTHING: Any = object()
#: Maximum bytes of a reply, so that a peer that never ends a reply can't fill the memory. The
#: largest batch of jobs is smaller.
REPLY_BYTES_MAX = 300 * 1024 * 1024
TOO_LONG = f"a reply of more than {REPLY_BYTES_MAX >> 20} MiB"
#: Maximum depth of lists within lists in a reply.
DEPTH_MAX = 16
#: Exceptions that readers raise for bytes that aren't a reply, such as a length beyond all memory,
#: a list as the key of a map, or an invalid number.
NO_REPLY = (ValueError, TypeError, MemoryError, OverflowError, IndexError)


def strange(wrong: BaseException) -> ValueError:
    """The error for bytes that aren't a reply, made from the reader's exception."""
    return ValueError(f"bytes that aren't a reply ({type(wrong).__name__}: {wrong!s:.80})")


class Reader(Protocol):
    """Reads replies from bytes."""

    def feed(self, data: Any, start: int, length: int, /) -> None:
        """Add the bytes that have arrived: ``length`` bytes of this buffer."""
        ...

    def gets(self) -> Any:
        """The next whole reply, or ``NOTHING``."""
        ...

    def has_data(self) -> bool:
        """True if some bytes belong to a reply that ``gets`` has not returned."""
        ...


class PlainPush(list[Any]):
    """A message that the server sends without a request."""

    __slots__ = ()


class Parser:
    """Our own parser: RESP2 and RESP3, in pure Python.

    An incomplete reply is later continued, and not parsed from its beginning again: a stack keeps
    its finished parts.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._at = 0
        #: Unfinished aggregates: their type, their number of parts, the parts so far.
        self._open: list[tuple[int, int, list[Any]]] = []

    def feed(self, data: Any, start: int, length: int, /) -> None:
        """Add the bytes that have arrived: ``length`` bytes of this buffer."""
        del self._data[: self._at]
        self._at = 0
        self._data += memoryview(data)[start : start + length]

    def gets(self) -> Any:
        """The next whole reply, or ``NOTHING``."""
        while (value := self._part()) is not NOTHING:
            if value is not _OPENED and (value := self._fold(value)) is not NOTHING:
                return value
        return NOTHING

    def has_data(self) -> bool:
        """True if some bytes belong to a reply that ``gets`` has not returned."""
        return bool(self._open) or self._at < len(self._data)

    def _part(self) -> Any:
        """The next scalar; ``_OPENED`` if an aggregate begins; ``NOTHING`` if bytes are missing."""
        end = self._data.find(b"\r\n", self._at)
        if end < 0:
            return NOTHING
        kind, line = self._data[self._at], bytes(self._data[self._at + 1 : end])
        after = end + 2
        size = int(line) if kind in _AGGREGATES or kind in _BLOBS else 0
        if size > REPLY_BYTES_MAX:
            raise ValueError(TOO_LONG)
        if kind in _AGGREGATES:
            self._at = after
            if size > 0:
                if len(self._open) >= DEPTH_MAX:
                    raise ValueError("a reply of lists within lists")
                doubled = 2 if kind in _PAIRS else 1
                self._open.append((kind, size * doubled, []))
                return _OPENED
            return None if size < 0 else _made(kind, [])
        if kind in _BLOBS:
            if size < 0:
                self._at = after
                return None
            if len(self._data) < after + size + 2:
                return NOTHING
            line = bytes(self._data[after : after + size])
            after += size + 2
        self._at = after
        return _scalar(kind, line)

    def _fold(self, value: Any) -> Any:
        """Add a finished part to its aggregate; return the whole reply, or ``NOTHING``."""
        while self._open:
            kind, size, parts = self._open[-1]
            parts.append(value)
            if len(parts) < size:
                return NOTHING
            self._open.pop()
            if kind == ord("|"):
                return NOTHING  # attributes: the reply that they are about follows
            value = _made(kind, parts)
        return value


_OPENED = object()
_AGGREGATES = frozenset(b"*~>%|")
_PAIRS = frozenset(b"%|")
_BLOBS = frozenset(b"$!=")


def _made(kind: int, parts: list[Any]) -> Any:
    if kind == ord(">"):
        return PlainPush(parts)
    if kind == ord("%"):
        return dict(zip(parts[::2], parts[1::2], strict=True))
    return parts


def _scalar(kind: int, line: bytes) -> Any:
    text = chr(kind)
    if text in "$+":
        return line
    if text in ":(":
        return int(line)
    if text in "-!":
        return said(line.decode("utf-8", "replace"))
    if text == "_":
        return None
    if text == "#":
        return line == b"t"
    if text == ",":
        return float(line)
    if text == "=":
        return line[4:]
    raise ValueError(f"no reply begins with {text!r}")


Push: type[list[Any]] = PlainPush
_quick: Any = None
try:
    import hiredis
except ImportError:
    pass
else:
    # Older versions return a push as a plain list, which looks like a reply.
    if hasattr(hiredis, "PushNotification"):
        _quick, Push = hiredis.Reader, hiredis.PushNotification


def new_reader() -> Reader:
    """A reader for a new connection."""
    if _quick is None:
        return Parser()
    reader: Reader = _quick(protocolError=ValueError, replyError=said, notEnoughData=NOTHING)
    return reader
