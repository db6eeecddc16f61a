"""What callers may hand in: names, seconds, counts. Each refusal names the input and the remedy."""

from __future__ import annotations

from typing import Any

from ..errors import ConfigError
from .model import (
    META_BYTES_MAX,
    NAME_BYTES_MAX,
    OWNER_BYTES_MAX,
    PERMITS_MAX,
    TTL_S_MAX,
    TTL_S_MIN,
)

#: The longest wait that ``threading`` knows (``threading.TIMEOUT_MAX``): 292 years.
TIMEOUT_S_MAX = 9_223_372_036.0
#: A lock's ``timeout`` that was not given.
FOREVER = -1
#: What ``blocking=False`` comes to.
TRY = -1.0


def name(value: object) -> str:
    """A name: text, not empty, at most 512 bytes of UTF-8. It is never interpreted."""
    if type(value) is str and value.isascii() and 0 < len(value) <= NAME_BYTES_MAX:
        return value
    return text("name", value, NAME_BYTES_MAX, least=1)


def owner(value: object) -> str:
    """An owner: text that people read, at most 256 bytes of UTF-8."""
    return text("owner", value, OWNER_BYTES_MAX, least=1)


def label(value: object) -> str:
    """The last part of an owner, chosen by the program."""
    return text("label", value, OWNER_BYTES_MAX, least=1)


def meta(value: object) -> str:
    """Metadata shown beside a claim: text, at most 4 KiB of UTF-8."""
    return text("meta", value, META_BYTES_MAX, least=0)


def text(what: str, value: object, most: int, least: int) -> str:
    """Text of ``least`` characters to ``most`` bytes of UTF-8."""
    if not isinstance(value, str):
        hint = " (decode it first)" if isinstance(value, (bytes, bytearray)) else ""
        raise ConfigError(f"{what} must be text, not {type(value).__name__}{hint}: {value!r:.80}")
    if len(value) < least:
        raise ConfigError(f"{what} is empty; give it at least one character")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigError(
            f"{what} {value!r:.80} has half a surrogate pair; it is no text"
        ) from None
    if size > most:
        raise ConfigError(
            f"{what} {value[:40]!r}... has {size} bytes of UTF-8; at most {most} are allowed "
            "(hash a long one)"
        )
    return str.__str__(value)  # the text that was checked: a subclass may print another


def seconds(what: str, value: Any, least: float, most: float) -> float:
    """A span of time as float: a number of seconds, or a ``timedelta``."""
    span = value.total_seconds() if hasattr(value, "total_seconds") else value
    if isinstance(span, bool) or not isinstance(span, (int, float)):
        raise ConfigError(f"{what} must be seconds as a number or a timedelta, not {value!r:.80}")
    if not least <= span <= most:  # also refuses nan
        shown = f"{span:g}" if isinstance(span, float) else f"{span!r:.40}"
        raise ConfigError(f"{what}={shown} s is not from {least:g} to {most:g} seconds")
    return float(span)


def ttl(value: Any) -> float:
    """A lease: 10 ms to 24 h."""
    return seconds("ttl", value, TTL_S_MIN, TTL_S_MAX)


def count(what: str, value: Any, most: int = PERMITS_MAX) -> int:
    """A whole number of permits, at least 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{what} must be a whole number, not {value!r:.80}")
    if not 1 <= value <= most:
        raise ConfigError(f"{what}={value} is not from 1 to {most}")
    return value


def wait(blocking: bool, timeout: Any) -> float | None:
    """How long to wait, from the two arguments that ``threading`` has: None is without end.

    ``blocking=False`` is one try (``TRY``), as is ``timeout=0``, which gives a silent store less
    time; ``timeout=-1`` and ``None`` wait for ever.
    """
    if not blocking:
        if timeout is not None and timeout != FOREVER:
            raise ConfigError("a timeout can't be given to a try (blocking=False); leave one out")
        return TRY
    if timeout is None or timeout == FOREVER:
        return None
    return seconds("timeout", timeout, 0.0, TIMEOUT_S_MAX)
