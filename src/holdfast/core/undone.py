"""A check that the result of a function is a value, and not work that is still to be done."""

from __future__ import annotations


def undone(found: object) -> str | None:
    """Return the type name of work that is not done yet; None for a plain value. Such work is a
    coroutine, a generator, another awaitable, a future, or a context manager that was not
    entered."""
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
    return type(found).__name__
