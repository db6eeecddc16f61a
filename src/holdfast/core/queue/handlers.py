"""Checks of a handler: its work must have ended when its call returns.

A call of a coroutine function or a generator function runs nothing of its body. If such a call
counted as done, its job would be acked although no work was done. So a worker refuses such a
handler at its start. If only the returned value shows that the work isn't done, the attempt counts
as failed.
"""

from __future__ import annotations

from typing import Any

from ...errors import ConfigError
from .. import functions
from ..checks import shown
from ..undone import undone


def check(handler: Any, awaits: bool) -> None:
    """Refuse a handler whose body would not run. ``awaits``: the worker awaits its result."""
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
    """Return the error for a handler that returned work that is not done yet, such as a coroutine
    or a future. Return None for any other value."""
    what = undone(found)
    if what is None:
        return None
    return ConfigError(
        f"the handler returned a {what}, which nothing runs or waits for, so the "
        "job isn't done. A handler does its work before it returns"
    )
