"""A comparison of functions: do two compute the same value? Asked before they share a stored
one."""

from __future__ import annotations

from functools import partial
from itertools import chain
from types import FunctionType
from typing import Any

#: Two functions that are being compared already, as one refers to itself.
_Seen = frozenset[tuple[int, int]]


def named(function: object) -> str:
    """A function by its module and its name in it."""
    module = getattr(function, "__module__", type(function).__module__)
    return f"{module}.{getattr(function, '__qualname__', function)}"


def same(one: object, other: object, seen: _Seen = frozenset()) -> bool:
    """Is one the other, or what a reload or a second import of its module made of it?

    A function that stands in a module or a class is known by its name. One that was made by a
    function, and a lambda, needs the same code and the same values around it: two of one factory
    differ in nothing else.
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
    """What a function has besides its code: variables of the function that made it, defaults."""
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
    """Is it the same value? What can't be compared isn't."""
    if one is other:
        return True
    try:
        if callable(one) and callable(other) and same(one, other, seen):
            return True
        return type(one) is type(other) and bool(one == other)
    except Exception:
        return False
