"""What a worker may call: a handler whose work is over when its call is.

A coroutine function does nothing when it is merely called, and neither does a generator function.
Taken for done, its job would be acked without having been run. So such a handler is refused at
once where it can be told, and else what it returned is a failed attempt.
"""

from __future__ import annotations

from typing import Any

from ...errors import ConfigError
from .. import functions
from ..checks import shown


def check(handler: Any, awaits: bool) -> None:
    """Refuse a handler that would not run; ``awaits``: what it returns is awaited."""
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
            f"{name} is a generator function: to call it runs nothing of its body. A handler "
            "is a function without yield"
        )


def unrun(found: object) -> ConfigError | None:
    """What is wrong with that which a handler returned: it is work that nobody does or waits for.
    Something that was merely returned is fine."""
    if found is None or isinstance(found, (bool, int, float, str, bytes, dict, list, tuple)):
        return None
    import inspect
    from contextlib import _GeneratorContextManagerBase

    work = (
        inspect.isawaitable(found)
        or inspect.isgenerator(found)
        or inspect.isasyncgen(found)
        or isinstance(found, (map, filter, _GeneratorContextManagerBase))
        or hasattr(type(found), "add_done_callback")
    )
    if not work:
        return None
    if inspect.iscoroutine(found):
        found.close()  # or it would warn that it was never awaited
    return ConfigError(
        f"the handler returned a {type(found).__name__}, which nobody runs or waits for, so the "
        "job isn't done. A handler does its work before it returns"
    )
