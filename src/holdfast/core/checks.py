"""Checks of arguments: names, seconds, counts. Each error names the input and the remedy."""

from __future__ import annotations

from typing import Any

from ..errors import ConfigError
from . import functions
from .model import (
    META_BYTES_MAX,
    NAME_BYTES_MAX,
    OWNER_BYTES_MAX,
    PERMITS_MAX,
    TTL_S_MAX,
    TTL_S_MIN,
)

#: The longest wait that ``threading`` accepts (``threading.TIMEOUT_MAX``): 292 years.
TIMEOUT_S_MAX = 9_223_372_036.0
#: Fences are integers of 64 bits with a sign.
FENCE_MAX = (1 << 63) - 1
#: The ``timeout`` for a wait without a time limit, as in ``threading``.
FOREVER = -1
#: The timeout into which `wait` turns ``blocking=False``.
TRY = -1.0


def name(value: object) -> str:
    """Return a checked name: text, not empty, at most 512 bytes of UTF-8. holdfast never interprets
    it."""
    if type(value) is str and value.isascii() and 0 < len(value) <= NAME_BYTES_MAX:
        return value
    return text("name", value, NAME_BYTES_MAX, least=1)


def owner(value: object) -> str:
    """Return a checked owner: text for humans, at most 256 bytes of UTF-8."""
    return text("owner", value, OWNER_BYTES_MAX, least=1)


def label(value: object) -> str:
    """Return a checked label, the last part of an owner, which the program chooses."""
    return text("label", value, OWNER_BYTES_MAX, least=1)


def meta(value: object) -> str:
    """Return the checked metadata of a claim: text for display, at most 4 KiB of UTF-8."""
    return text("meta", value, META_BYTES_MAX, least=0)


def text(what: str, value: object, most: int, least: int) -> str:
    """Return a checked text of at least ``least`` characters and at most ``most`` bytes of
    UTF-8."""
    if not isinstance(value, str):
        hint = " (decode it first)" if isinstance(value, (bytes, bytearray)) else ""
        raise ConfigError(f"{what} must be text, not {type(value).__name__}{hint}: {shown(value)}")
    if len(value) < least:
        raise ConfigError(f"{what} is empty; give it at least one character")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigError(
            f"{what} {shown(value)} has half a surrogate pair; it isn't text"
        ) from None
    if size > most:
        raise ConfigError(
            f"{what} {value[:40]!r}... has {size} bytes of UTF-8; at most {most} are allowed "
            "(hash a long one)"
        )
    return str.__str__(value)  # the text that was checked: a subclass may print another


def callback(value: Any, awaits: bool) -> None:
    """Check an ``on_lost`` function; without ``awaits`` it must not be a coroutine function."""
    if not callable(value):
        raise ConfigError(f"on_lost must be a function of (hold, reason), not {shown(value)}")
    late = functions.late(value)
    if not awaits and (late or functions.awaited(value)):
        raise ConfigError(
            f"on_lost={shown(value)} is a coroutine function, which nothing awaits among threads: "
            "give it a plain function, or use an AsyncClient"
        )
    if late:
        raise ConfigError(f"on_lost={shown(value)} is a generator function; nothing would run it")


def shown(value: object, most: int = 80) -> str:
    """Return text that shows an unusable value, even if its `repr` fails."""
    if isinstance(value, int) and abs(value) >= 10**40:
        return "a number of more than 40 digits"
    try:
        return repr(value)[:most]
    except Exception:
        return f"a {type(value).__name__} that can't be printed"


def unpicklable(thing: object) -> TypeError:
    """Return the error for pickling a lock, a queue or a guard."""
    return TypeError(
        f"{thing!r} can't be pickled: it belongs to a client of this process. Send the client, "
        "which pickles as its URL, and the name, and make it there, as here"
    )


def seconds(what: str, value: Any, least: float, most: float) -> float:
    """Return a checked span of time in seconds; ``value``: a number of seconds or a
    ``timedelta``."""
    span = value.total_seconds() if hasattr(value, "total_seconds") else value
    if isinstance(span, bool) or not isinstance(span, (int, float)):
        raise ConfigError(f"{what} must be seconds as a number or a timedelta, not {shown(value)}")
    if not least <= span <= most:  # also refuses nan
        text = f"{span:g}" if isinstance(span, float) else shown(span)
        raise ConfigError(f"{what}={text} s is not from {least:g} to {most:g} seconds")
    return float(span)


def ttl(value: Any) -> float:
    """Return a checked ttl: 10 ms to 24 h."""
    return seconds("ttl", value, TTL_S_MIN, TTL_S_MAX)


def count(what: str, value: Any, most: int = PERMITS_MAX) -> int:
    """Return a checked whole number from 1 to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{what} must be a whole number, not {shown(value)}")
    if not 1 <= value <= most:
        raise ConfigError(f"{what}={shown(value)} is not from 1 to {most}")
    return value


def flag(what: str, value: object) -> bool:
    """Return True or False; refuse other values: a text such as ``"no"`` would count as true."""
    if value is True or value is False:
        return value
    raise ConfigError(f"{what} must be True or False, not {shown(value)}")


def prefix(value: object) -> str:
    """Return a checked beginning of names: any text of at most 512 bytes, also an empty one."""
    return text("prefix", value, NAME_BYTES_MAX, least=0)


def several(what: str, value: Any) -> list[Any]:
    """Return the elements of an iterable; refuse text and bytes, each of which is one value."""
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        raise ConfigError(f"{what} must be several: write [{shown(value)}]")
    try:
        parts = iter(value)
    except TypeError:
        raise ConfigError(
            f"{what} must be a list or another iterable, not {shown(value)}"
        ) from None
    return list(parts)


def function(what: str, value: object, takes: str = "") -> None:
    """Check that a value can be called."""
    if not callable(value):
        raise ConfigError(f"{what} must be a function{takes}, not {shown(value)}")


def _blocking(value: object) -> bool:
    """Accept True, False, 0 and 1, as ``threading`` does; refuse a number of seconds."""
    if isinstance(value, int) and 0 <= value <= 1:
        return bool(value)
    raise ConfigError(
        f"blocking must be True or False, not {shown(value)}; a time to wait is timeout="
    )


def wait(blocking: bool, timeout: Any) -> float | None:
    """Return the seconds to wait, from the two arguments of ``threading``; None: no time limit.

    ``blocking=False`` is one try (``TRY``). ``timeout=0`` is one try too, and allows a silent store
    less time. ``timeout=-1`` and ``None`` wait without a time limit.
    """
    if blocking is not True and not _blocking(blocking):
        if timeout is not None and timeout != FOREVER:
            raise ConfigError("a timeout can't be given to a try (blocking=False); leave one out")
        return TRY
    if timeout is None or timeout == FOREVER:
        return None
    return seconds("timeout", timeout, 0.0, TIMEOUT_S_MAX)
