"""Run work that can hang if holdfast is wrong, with a time limit."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any

#: Maximum seconds for any work.
BOUND_S = 20.0
Work = Callable[[], Any]


def ended(work: Work, seconds: float = BOUND_S) -> Any:
    """Run this work on a separate thread; return its result or raise its exception."""
    came: list[Any] = []

    def run() -> None:
        try:
            came.append(work())
        except BaseException as failure:
            came.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert came, "it hangs"
    if isinstance(came[0], BaseException):
        raise came[0]
    return came[0]


def bounded(test: Callable[..., Any]) -> Callable[..., None]:
    """Run a test on a separate thread, or in an event loop there, with a time limit."""

    @functools.wraps(test)
    def run(**given: Any) -> None:
        waits = inspect.iscoroutinefunction(test)
        ended(lambda: asyncio.run(test(**given)) if waits else test(**given))

    return run


def here(lines: int = 0) -> str:
    """Return the position ``lines`` lines below the call, in the form that errors use."""
    frame = sys._getframe(1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno + lines}"
