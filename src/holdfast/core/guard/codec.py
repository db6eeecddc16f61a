"""Values as bytes and back: bytes, text, or anything that JSON has; else by a codec of the user's.

One byte says which it is, so that a value comes back as what it was. Never pickle: a process that
can write to the store could run code with it.
"""

from __future__ import annotations

from typing import Any, Protocol

from ...errors import ConfigError
from ..queue import payload

_CODED = b"c"
#: What stands in the store for a value that is kept in a cache of the user's.
ELSEWHERE = b"e"


class Damaged(ConfigError):
    """What is stored is no value of this guard, or no longer one that its codec reads."""


class Codec(Protocol):
    """Turns values into bytes and back, where JSON doesn't serve."""

    def encode(self, value: Any) -> bytes:
        """The value as bytes."""
        ...

    def decode(self, data: bytes) -> Any:
        """The value that ``encode`` was given, or one like it."""
        ...


def pack(value: Any, codec: Codec | None, most: int) -> bytes:
    """The value as at most so many bytes; `ConfigError` says what is wrong with it."""
    if codec is None:
        return payload.pack(value, most, "value")
    data = codec.encode(value)
    if not isinstance(data, (bytes, bytearray)):
        raise ConfigError(f"codec.encode() gave {type(data).__name__}; it must give bytes")
    payload.fits(len(data), most, "value")
    return _CODED + bytes(data)


def unpack(data: bytes, codec: Codec | None) -> Any:
    """What was packed."""
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
        raise Damaged(f"what is stored can't be read ({type(wrong).__name__})") from wrong
