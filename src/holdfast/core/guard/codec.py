"""Conversion of values to bytes and back: bytes, text and JSON data; other values by a codec.

The first byte marks the kind, so that a value keeps its type. Pickle is never used: a process that
can write to the store could run code in the readers.
"""

from __future__ import annotations

from typing import Any, Protocol

from ...errors import ConfigError
from ..queue import payload

_CODED = b"c"
#: The stored bytes of an entry whose value is kept in an external cache.
ELSEWHERE = b"e"


class Damaged(ConfigError):
    """The stored bytes aren't a value of this guard, or the guard's codec can't read them."""


class Codec(Protocol):
    """Turns values into bytes and back, for values that JSON can't represent."""

    def encode(self, value: Any) -> bytes:
        """Return the value as bytes."""
        ...

    def decode(self, data: bytes) -> Any:
        """Return the value that ``encode`` was given, or an equal value."""
        ...


def pack(value: Any, codec: Codec | None, most: int) -> bytes:
    """Return the value as at most ``most`` bytes; `ConfigError` if it can't be stored."""
    if codec is None:
        return payload.pack(value, most, "value")
    data = codec.encode(value)
    if not isinstance(data, (bytes, bytearray)):
        raise ConfigError(f"codec.encode() returned {type(data).__name__}; it must return bytes")
    payload.fits(len(data), most, "value")
    return _CODED + bytes(data)


def unpack(data: bytes, codec: Codec | None) -> Any:
    """Return the value that was packed."""
    if data == ELSEWHERE:
        raise ConfigError(
            "the values of this guard are kept in another cache: give it the same cache=, or "
            "invalidate the value"
        )
    coded = data[:1] == _CODED
    if coded and codec is None:
        raise ConfigError("the value was stored with a codec; give the guard the same one")
    try:
        if coded and codec is not None:
            return codec.decode(data[1:])
        return payload.unpack(data)
    except Exception as wrong:
        raise Damaged(f"the stored value can't be read ({type(wrong).__name__})") from wrong
