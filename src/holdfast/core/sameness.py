"""A comparison of functions, to share a stored value only between functions that compute it."""

from __future__ import annotations

from functools import partial
from itertools import chain
from types import FunctionType
from typing import Any

#: Pairs of functions under comparison, because a function can refer to itself.
_Seen = frozenset[tuple[int, int]]


def named(function: object) -> str:
    """Return the name of a function, with its module."""
    module = getattr(function, "__module__", type(function).__module__)
    return f"{module}.{getattr(function, '__qualname__', function)}"


def same(one: object, other: object, seen: _Seen = frozenset()) -> bool:
    """Return True if both are the same function, even if its module was imported twice.

    Functions of a module or a class are the same if their names are. Functions that a function
    made, and lambdas, must also have equal code, defaults and closure variables: the functions that
    one function made have the same name.
    """
    pair = id(one), id(other)
    if one is other or pair in seen:
        return True
    seen |= {pair}
    if isinstance(one, partial) and isinstance(other, partial):
        return (
            same(one.func, other.func, seen)
            and _equal(one.args, other.args, seen)
            and one.keywords.keys() == other.keywords.keys()
            and _equal([one.keywords[key] for key in other.keywords], other.keywords.values(), seen)
        )
    if getattr(one, "__self__", None) is not getattr(other, "__self__", None):
        return False  # methods of two objects
    one, other = getattr(one, "__func__", one), getattr(other, "__func__", other)
    if not isinstance(one, FunctionType) or not isinstance(other, FunctionType):
        return one is other
    if named(one) != named(other):
        return False
    if "<" not in one.__code__.co_qualname + other.__code__.co_qualname:
        return True
    return one.__code__ == other.__code__ and _equal(_around(one), _around(other), seen)


def _around(function: FunctionType) -> list[Any]:
    """Return the values of a function apart from its code: closure variables and defaults."""
    found: list[Any] = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not bound yet
            found.append(_around)
    more = (function.__kwdefaults__ or {}).items()
    return [*found, *(function.__defaults__ or ()), *chain(*sorted(more))]


def _equal(some: Any, others: Any, seen: _Seen) -> bool:
    some, others = list(some), list(others)
    return len(some) == len(others) and all(
        _alike(one, other, seen) for one, other in zip(some, others, strict=True)
    )


def _alike(one: Any, other: Any, seen: _Seen) -> bool:
    """Return True if the values are equal; False if they can't be compared."""
    if one is other:
        return True
    try:
        if callable(one) and callable(other) and same(one, other, seen):
            return True
        return type(one) is type(other) and bool(one == other)
    except Exception:
        return False
