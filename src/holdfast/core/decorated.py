"""Checks of a decorated function: its body must run during the call, or while it is awaited."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager, contextmanager
from types import GeneratorType
from typing import Any

from ..errors import ConfigError
from . import checks, functions
from .undone import undone


def require_body(function: Callable[..., Any], what: str, awaits: bool) -> None:
    """Refuse a function whose body doesn't run during the call, or while its result is awaited."""
    if not callable(function):
        raise ConfigError(f"{what} decorates a function, not {shown(function)}")
    managers = [made(_nothing).__code__ for made in (contextmanager, asynccontextmanager)]
    late = ""
    if functions.late(function):
        late = "a generator function"
    elif any(getattr(one, "__code__", None) in managers for one in functions.calls(function)):
        late = "the function of a context manager"
    if late:
        raise ConfigError(
            f"{shown(function)} is {late}: {what} by a decorator would end before its body "
            "runs. Take it in the body"
        )
    if not awaits and functions.awaited(function):
        raise ConfigError(
            f"{shown(function)} is a coroutine function; decorate it with {what} of an AsyncClient"
        )


def require_coroutine(function: Callable[..., Any]) -> None:
    """Refuse a plain function, whose result nothing could await.

    An object with ``__call__`` isn't refused: the kind of its result is unknown before the call.
    """
    inner = functions.bare(function)
    if hasattr(inner, "__code__") and not functions.awaited(inner):
        raise ConfigError(
            f"{shown(inner)} isn't a coroutine function; decorate it with a lock of a Client"
        )


def require_awaitable(made: object, function: object) -> None:
    """Refuse the result of a decorated function if it can't be awaited."""
    if not hasattr(made, "__await__") and not isinstance(made, GeneratorType):
        raise ConfigError(
            f"{shown(function)} returned a {type(made).__name__}, which can't be awaited; decorate "
            "it with a lock of a Client"
        )


def _nothing() -> Any:
    """This function is decorated to get the code of the wrapper that a decorator makes."""


def shown(function: object) -> str:
    """Return the name of a function, or its repr."""
    return str(getattr(function, "__qualname__", None) or checks.shown(function))


def require_done(made: object, function: object) -> None:
    """Refuse a result of a decorated function that is work not done yet."""
    what = undone(made)
    if what is not None:
        raise ConfigError(
            f"{shown(function)} returned a {what}, whose work would be done without the lock; do "
            "it in the body, or decorate a coroutine function with a lock of an AsyncClient"
        )
