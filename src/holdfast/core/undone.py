"""Check of a function's result: a plain value, or work that is not done yet?"""

from __future__ import annotations


def undone(found: object) -> str | None:
    """What it is called if it is work that nobody has done yet: a coroutine or generator, what is
    awaited, the result of an executor, a context manager that was not entered."""
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
