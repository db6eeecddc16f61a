"""Checks of payloads and guard values: an allowed value comes back equal and of the same type.

Any other value is refused before it is stored; the error names the place of the wrong part. Queues
and guards share this rule; their pages document it.
"""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

from ..errors import ConfigError
from .checks import shown

#: Maximum levels of containers, because a reader can have little stack left. The limit also refuses
#: a container that contains itself.
DEPTH_MAX = 100
#: Maximum digits of an integer: Python's default limit for reading one.
DIGITS_MAX = 4300
#: Maximum number of steps, as in ``["a"][0]``, by which an error names the place of a part.
_STEPS_SHOWN = 8

_LEAVES = frozenset({str, int, float, bool, type(None)})
#: Leaf types that need no further check.
_CERTAIN = frozenset({bool, type(None)})
_TEXT = frozenset({str})
#: One encoder for all calls, because making it takes longer than writing a small payload.
_written = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
).encode


class _Changed(Exception):
    """A part would come back changed. It has the reason, and the steps to the part in reverse."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.steps: list[object] = []


def as_json(value: Any, what: str) -> bytes:
    """Return the value as JSON; `ConfigError` if it would not come back equal. ``what``: the name
    of the value in the error."""
    try:
        if type(value) not in _LEAVES:
            _require(value, _LEAVES, _TEXT, 0)
        if not 0 < sys.get_int_max_str_digits() <= DIGITS_MAX:
            _require(value, _CERTAIN, frozenset(), 0)
        return _written(value).encode()
    except _Changed as changed:
        _refuse(what, changed)
    except (TypeError, ValueError, RuntimeError) as wrong:
        # The value has a number or a text that JSON doesn't have. The first pass noted no place, to
        # save time, so a second pass searches for the place.
        try:
            _require(value, _CERTAIN, frozenset(), 0)
        except _Changed as changed:
            _refuse(what, changed)
        except RuntimeError:
            pass  # too little stack, or another thread changes the value: see ``wrong``
        raise ConfigError(f"the {what} could not be written as JSON: {wrong}") from wrong


def as_text(value: str, what: str) -> bytes:
    """Return the text as UTF-8; `ConfigError` for half a surrogate pair."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        _refuse(what, _Changed(_HALF))


def as_bytes(value: bytearray | memoryview, what: str) -> bytes:
    """Return the bytes; `ConfigError` for a view of other data than contiguous bytes."""
    try:
        if isinstance(value, memoryview) and (value.format != "B" or value.ndim != 1):
            _refuse(what, _Changed("is a view of other things than bytes: write bytes(...) of it"))
        return bytes(value)
    except ValueError as wrong:  # a view that was released
        raise ConfigError(f"the {what} can't be read: {wrong}") from None


def _require(value: Any, sure: frozenset[object], keys: frozenset[object], depth: int) -> None:
    """Raise `_Changed` if a part would come back changed. Values of the types ``sure`` and keys of
    the types ``keys`` aren't checked. The first pass checks no leaf, because the encoder does."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return _require_leaf(value)
    if depth == DEPTH_MAX:
        raise _Changed(f"has more than {DEPTH_MAX} levels, or contains itself: write fewer")
    if kind is dict:
        key: Any = None
        try:
            for key, item in value.items():
                if type(key) not in keys:
                    _require_key(key)
                if type(item) not in sure:
                    _require(item, sure, keys, depth + 1)
        except _Changed as changed:
            changed.steps.append(key)
            raise
        return None
    item = None
    try:
        for item in value:
            if type(item) not in sure:
                _require(item, sure, keys, depth + 1)
    except _Changed as changed:
        # The loop stopped at the first index of this object.
        changed.steps.append(next((at for at, one in enumerate(value) if one is item), 0))
        raise
    return None


def _require_key(key: Any) -> None:
    if type(key) is not str:
        raise _Changed(
            f"is under a key of the type {type(key).__qualname__}, which would come back as "
            "str, if at all: write text as the key"
        )
    if not _whole(key):
        raise _Changed("is under a key with half a surrogate pair: write other text as the key")


def _require_leaf(value: Any) -> None:
    kind = type(value)
    if kind is str:
        if not _whole(value):
            raise _Changed(_HALF)
    elif kind is float:
        if not -_INF < value < _INF:
            raise _Changed(f"is {value}, which JSON doesn't have: write None or text")
    elif kind is int:
        if not -_BEYOND < value < _BEYOND:
            raise _Changed(f"is a number of more than {DIGITS_MAX} digits: write text")
    elif kind not in _CERTAIN:
        raise _Changed(_odd(kind))


_INF = float("inf")
_BEYOND = 10**DIGITS_MAX
_HALF = "has half a surrogate pair: write other text, or bytes as the whole"
#: Type of a part -> the type that would come back.
_BACK = {tuple: "list", dict: "dict", list: "list", str: "str", int: "int", float: "float"}


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _odd(kind: type) -> str:
    name = kind.__qualname__
    for base, back in _BACK.items():
        if issubclass(kind, base):
            return f"has the type {name} and would come back as {back}: write {back}(...) of it"
    if issubclass(kind, bytes | bytearray | memoryview):
        return f"has the type {name}: write text in its place, or bytes as the whole"
    if hasattr(kind, "isoformat"):
        return f"has the type {name}: write its isoformat()"
    return f"has the type {name}: write it as one of these"


def _refuse(what: str, changed: _Changed) -> NoReturn:
    steps = [f"[{shown(step, 40)}]" for step in reversed(changed.steps)]
    if len(steps) > _STEPS_SHOWN:
        steps = [*steps[:_STEPS_SHOWN], "[...]"]
    more = " (or give the guard a codec)" if what == "value" else ""
    raise ConfigError(
        f"a {what} is bytes, text, or JSON data (dict with text as keys, list, str, int, "
        f"float, bool, None), and comes back unchanged; {what}{''.join(steps)} {changed}{more}"
    ) from None
