"""Names from the arguments of a call, for ``@locks.lock("user:{user_id}")``."""

from __future__ import annotations

import string
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ..errors import ConfigError
from . import checks
from .decorated import require_body, shown

#: The characters of an escape: ``%3A``.
_ESCAPES = frozenset("%0123456789ABCDEF")

#: The default text of an object contains this, as in ``<Tenant object at 0x7f32...>``.
_ADDRESS = " at 0x"


def filler(
    template: str, function: Callable[..., Any], what: str = "a lock", awaits: bool = True
) -> Callable[..., str]:
    """Return a function that makes the name from the arguments of a call.

    The template's fields are checked here, once. A template without a field is the name itself.
    ``{{`` and ``}}`` give braces. ``awaits``: True if the decorator awaits the function's result. A
    function whose body would run after its call, when the lock is released, is refused.
    """
    import inspect  # because it is slow to import and only decorators need it

    checks.function(f"the function that {what} decorates", function)
    require_body(function, what, awaits)
    if "{" not in template and "}" not in template:
        return lambda *args, **kwargs: template
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(template)]
    except ValueError as wrong:
        raise ConfigError(f"name template {template!r}: {wrong}; write {{{{ for a brace") from None
    signature = inspect.signature(function)
    for field in fields:
        root = _root(field or "")
        if field is not None and root not in signature.parameters:
            raise ConfigError(
                f"name template {template!r} has the field {root!r}, but "
                f"{shown(function)}{signature} has no such parameter"
            )

    def fill(*args: Any, **kwargs: Any) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return _filled(template, template, bound.arguments)

    return fill


def keys(
    template: str, function: Callable[..., Any], vary: Iterable[str] | None, awaits: bool = True
) -> Callable[..., str]:
    """Like `filler`, for the keys of stored values: no call may get the value of another call.

    The template must contain each parameter, or each parameter in ``vary`` if that is given. If it
    has several fields, the text between two fields is escaped inside the fields. So two calls have
    the same key only if all their fields are equal.
    """
    import inspect

    fill = filler(template, function, "a guard", awaits)
    fields = list(string.Formatter().parse(template))
    used = {_root(field) for _, field, _, _ in fields if field is not None}
    parameters = inspect.signature(function).parameters
    _require(template, function, used, _wanted(vary, parameters))
    seams = [literal for literal, field, _, _ in fields if field is not None][1:]
    if not seams:
        return fill
    if not all(seams):
        raise ConfigError(
            f"name template {template!r} has two fields with nothing between them, so different "
            "calls would have the same key; put something there"
        )
    escaped = {ord("%"): "%25"}
    for seam in seams:
        mark = _mark(template, seam)
        escaped[ord(mark)] = "".join(f"%{byte:02X}" for byte in mark.encode())
    parts = [(literal, _field(*rest)) for literal, *rest in fields]
    signature = inspect.signature(function)

    def distinct(*args: Any, **kwargs: Any) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        found = []
        for literal, field in parts:
            found.append(literal)
            if field:
                found.append(_filled(template, field, bound.arguments).translate(escaped))
        return "".join(found)

    return distinct


def _mark(template: str, seam: str) -> str:
    """Return the character that marks the end of the first of two fields. This character is escaped
    inside the fields, so it must not occur in an escape."""
    able = [one for one in seam if one not in _ESCAPES]
    if not able:
        raise ConfigError(
            f"name template {template!r} has {seam!r} alone between two fields, so different calls "
            "could have the same key; put something else there, such as ':'"
        )
    return next((one for one in able if not one.isalnum()), able[0])


def _root(field: str) -> str:
    return field.split(".", maxsplit=1)[0].split("[", maxsplit=1)[0]


def _field(field: str | None, spec: str | None, conversion: str | None) -> str:
    """Return a field in the notation of the template."""
    if field is None:
        return ""
    return "{" + field + (f"!{conversion}" if conversion else "") + f":{spec}" * bool(spec) + "}"


def _wanted(vary: Iterable[str] | None, parameters: Collection[str]) -> list[str]:
    """Return the parameters on which the value depends."""
    if vary is None:
        return list(parameters)
    wanted = checks.several("vary", vary)
    if odd := [name for name in wanted if not isinstance(name, str) or name not in parameters]:
        raise ConfigError(f"vary names {checks.shown(odd[0])}, but there is no such parameter")
    return wanted


def _require(
    template: str, function: Callable[..., Any], used: set[str], wanted: Iterable[str]
) -> None:
    missing = [name for name in wanted if name not in used]
    if not missing:
        return
    whole = template + "".join(":{" + _telling(name) + "}" for name in missing)
    which = ", with the attribute that identifies the object" if "self" in missing else ""
    rest = ", ".join(repr(name) for name in sorted(used))
    only = f"({rest},)" if used else "()"
    raise ConfigError(
        f"the template {template!r} has no {{{missing[0]}}}, so all calls of "
        f"{getattr(function, '__qualname__', function)} would share one value whatever "
        f"{missing[0]!r} is, also between users. Write {whole!r}{which}; or, if the value "
        f"really doesn't depend on it, vary={only}"
    )


def _telling(name: str) -> str:
    """Return the field to write in a template for this parameter; for `self`, the field of an
    attribute."""
    return f"{name}.id" if name == "self" else name


def _filled(template: str, part: str, arguments: Mapping[str, Any]) -> str:
    try:
        text = part.format_map(arguments)
    except Exception as wrong:
        raise ConfigError(
            f"name template {template!r} can't be filled from the arguments of this call: "
            f"{type(wrong).__name__}: {wrong}"
        ) from wrong
    if _ADDRESS in text or "!" in part:
        _require_telling(template, part, arguments)
    return text


def _require_telling(template: str, part: str, arguments: Mapping[str, Any]) -> None:
    """Refuse a field whose text contains a memory address: a later object can get the same address,
    and the same object has another address in each process."""
    formatter = string.Formatter()
    for _, field, _, conversion in formatter.parse(part):
        if not field:
            continue
        value, _ = formatter.get_field(field, (), arguments)
        if isinstance(value, str) or _ADDRESS not in formatter.convert_field(
            value, conversion or "s"
        ):
            continue
        kind = type(value)
        same = f"{kind.__name__.lower()}_id"
        given = next((one for one in ("id", "pk", "uuid", same) if hasattr(value, one)), "id")
        raise ConfigError(
            f"name template {template!r}: the text of {{{field}}}, a {kind.__qualname__}, has its "
            "address in memory, which another object can get later and which differs in each "
            f"process. Write '{{{field}.{given}}}', an attribute that identifies the object"
        )
