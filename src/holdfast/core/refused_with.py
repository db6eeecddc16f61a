"""Errors for a missing ``with`` statement, such as ``with`` on a lock of asyncio.

Type checkers don't see the refusals, so they report the same mistakes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import checks


class RefusedWith(TypeError, AttributeError):
    """The object has no such ``with`` statement.

    This is an ``AttributeError``, too, so that ``hasattr(lock, "__enter__")`` stays False.
    """


class Refusal:
    """Raises the error in the place of ``__enter__`` or ``__aenter__``.

    As there is no ``__exit__``, no library takes the object for a context manager of this kind.
    """

    def __init__(self, what: str, remedy: str) -> None:
        self._what = what
        self._remedy = remedy

    def __get__(self, one: object, owner: type) -> Any:
        """Refuse the statement."""
        thing = owner if one is None else one
        raise RefusedWith(f"{checks.shown(thing)} has no {self._what}: {self._remedy}")


class OneWith:
    """The base of objects that have ``with`` among threads, and ``async with`` in asyncio."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a face replaces one of them
        __enter__ = Refusal("`with`", "it is for asyncio; write `async with`")
        __aenter__ = Refusal("`async with`", "it is for threads; write `with`")
