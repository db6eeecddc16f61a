"""Check of a handler: its work must have ended when its call returns.

Calling a coroutine function or a generator function runs nothing of its body. If such a call
counted as done, its job would be acked without having been run. So such a handler is refused at the
start where this can be seen; elsewhere, returning unrun work is a failed attempt.
"""

from __future__ import annotations

from typing import Any

from ...errors import ConfigError
from .. import functions
from ..checks import shown
from ..undone import undone


def check(handler: Any, awaits: bool) -> None:
    """Refuse a handler that would not run. ``awaits``: the worker awaits what it returns."""
    if not callable(handler):
        raise ConfigError(
            f"a worker needs a handler that it can call with a job, not {shown(handler)}"
        )
    name = getattr(functions.calls(handler)[-1], "__qualname__", repr(handler))
    if functions.awaited(handler) and not awaits:
        raise ConfigError(
            f"{name} is a coroutine function, and this worker calls its handler from a "
            "thread: nothing would run it. Use AsyncClient, or a plain function"
        )
    if functions.late(handler):
        raise ConfigError(
            f"{name} is a generator function: calling it runs nothing of its body. A handler "
            "is a function without yield"
        )


def unrun(found: object) -> ConfigError | None:
    """The error for a handler that returned work that nothing runs or waits for; else None. Any
    other returned value is allowed."""
    what = undone(found)
    if what is None:
        return None
    return ConfigError(
        f"the handler returned a {what}, which nothing runs or waits for, so the "
        "job isn't done. A handler does its work before it returns"
    )
