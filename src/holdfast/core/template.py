"""Names from the arguments of a call: what ``@locks.lock("user:{user_id}")`` needs."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

from ..errors import ConfigError


def filler(template: str, function: Callable[..., Any], what: str = "a lock") -> Callable[..., str]:
    """A function of the call's arguments that gives the name; fields are checked here, once.

    A template without a field is a name as it stands. ``{{`` and ``}}`` stand for braces.
    """
    import inspect  # because it is slow to import and only decorators need it

    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        raise ConfigError(
            f"{function.__qualname__} is a generator function: {what} by a decorator would be over "
            "before its body runs. Take it in the body"
        )
    if "{" not in template and "}" not in template:
        return lambda *args, **kwargs: template
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(template)]
    except ValueError as wrong:
        raise ConfigError(f"name template {template!r}: {wrong}; write {{{{ for a brace") from None
    signature = inspect.signature(function)
    for field in fields:
        root = (field or "").split(".")[0].split("[")[0]
        if field is not None and root not in signature.parameters:
            raise ConfigError(
                f"name template {template!r} has the field {root!r}, but "
                f"{function.__qualname__}{signature} has no such parameter"
            )

    def fill(*args: Any, **kwargs: Any) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return template.format_map(bound.arguments)

    return fill
