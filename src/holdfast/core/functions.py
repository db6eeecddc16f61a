"""Detection of functions whose result must be awaited, or whose body runs after the call.

Partials, methods and callable objects are resolved. The flags of the code decide, because
``inspect`` is slow to import.
"""

from __future__ import annotations

from functools import partial
from typing import Any

#: Flags of code: of a coroutine function (or one of ``types.coroutine``); of a generator function,
#: with or without ``async``.
_COROUTINE, _GENERATOR = 0x80 | 0x100, 0x20 | 0x200


def bare(function: Any) -> Any:
    """Return the function inside of partials."""
    while isinstance(function, partial):
        function = function.func
    return function


def calls(function: Any) -> list[Any]:
    """Return the function, then each function inside it: that of a partial, a method or
    ``__call__``."""
    found = [function]
    while True:
        inner = found[-1]
        if isinstance(inner, partial):
            found.append(inner.func)
        elif hasattr(inner, "__func__"):
            found.append(inner.__func__)
        elif not hasattr(inner, "__code__") and not isinstance(inner, type):
            call = getattr(type(inner), "__call__", None)  # noqa: B004 - its code is looked at
            if not (hasattr(call, "__code__") or hasattr(call, "__func__")):
                return found
            found.append(call)
        else:
            return found


def awaited(function: Any) -> bool:
    """Return True if a call returns an object that must be awaited."""
    return any(_awaited(one) for one in calls(function))


def late(function: Any) -> bool:
    """Return True for a generator function, with or without ``async``."""
    return any(_flags(one) & _GENERATOR and not _awaited(one) for one in calls(function))


def _awaited(one: Any) -> bool:
    marked = getattr(one, "_is_coroutine_marker", None)  # by inspect.markcoroutinefunction
    return bool(_flags(one) & _COROUTINE) or marked is not None


def _flags(one: Any) -> int:
    flags = getattr(getattr(one, "__code__", None), "co_flags", 0)
    return flags if isinstance(flags, int) else 0
