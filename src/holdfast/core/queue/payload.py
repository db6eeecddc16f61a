"""Conversion of the payload of a job (bytes, text or JSON data) to bytes and back.

The first byte names the kind, so that a worker gets the value that was put, and `inspect` can show
it.
"""

from __future__ import annotations

import json
from typing import Any

from ...errors import ConfigError
from .. import values
from ..checks import shown
from .model import REASON_BYTES_MAX

_BYTES, _TEXT, _JSON = b"b", b"t", b"j"


def pack(payload: Any, most: int, what: str = "payload") -> bytes:
    """Return the payload as at most ``most`` bytes. ``what``: the name of the value in errors."""
    kind = type(payload)
    if kind is str:
        packed = _TEXT + values.as_text(payload, what)
    elif kind is bytes:
        packed = _BYTES + payload
    elif kind is bytearray or kind is memoryview:
        packed = _BYTES + values.as_bytes(payload, what)
    else:
        packed = _JSON + values.as_json(payload, what)
    fits(len(packed) - 1, most, what)
    return packed


def fits(size: int, most: int, what: str) -> None:
    """Refuse a size above ``most``."""
    if size > most:
        raise ConfigError(
            f"the {what} has {size} bytes; at most {most} are allowed here (put the data "
            f"elsewhere, and its key in place of the {what})"
        )


def unpack(packed: bytes) -> Any:
    """Return the value that was put; `ConfigError` for bytes that `pack` can't have made."""
    kind, rest = packed[:1], packed[1:]
    try:
        if kind == _TEXT:
            return rest.decode()
        if kind == _JSON:
            return json.loads(rest)
    except (ValueError, RecursionError) as wrong:
        raise ConfigError(
            f"this payload was damaged in the store ({wrong}): {packed[:40]!r}"
        ) from wrong
    if kind == _BYTES:
        return rest
    raise ConfigError(f"a payload of holdfast begins with b, t or j, not {packed[:20]!r}")


def text_of(failure: BaseException) -> str:
    """Return a failure as text, even if its ``str()`` raises."""
    name = type(failure).__name__
    try:
        text = str(failure)
    except Exception:
        return f"{name}, which can't be shown"
    return f"{name}: {text}" if text else name


def short(reason: object) -> str:
    """Return a reason, cut to the length that a store accepts."""
    try:
        text = str(reason)
    except Exception:
        text = shown(reason)
    raw = text.encode("utf-8", "backslashreplace")[:REASON_BYTES_MAX]
    return raw.decode("utf-8", "ignore").replace("\0", " ")
