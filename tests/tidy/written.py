"""The pages that are made from the code: ``python -m tests.tidy.written`` writes them.

``docs/api.md`` is made from the docstrings of the public names, ``docs/man/holdfast.1`` from the
tree of commands. A test compares them with the code, so they are never out of date.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import holdfast
from tests.tidy.man import manual
from tests.tidy.tree import ROOT

#: The modules with public names, each with the page that explains it.
MODULES = {
    "holdfast": "README.md#the-public-names",
    "holdfast.fenced": "fencing.md",
    "holdfast.sql": "row-lock.md",
    "holdfast.caches": "guard.md#in-the-cache-that-you-have",
}
HEAD = """\
# The API, name by name

Made from the docstrings by `python -m tests.tidy.written`. The [other pages](README.md) explain the
names, with examples. The classes for asyncio have the methods of their twins; methods that wait are
coroutines there.
"""
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`")
_PLACE = re.compile(r"<[^<>]*(?:object|function)[^<>]*>")


def sentence(thing: object) -> str:
    """The first sentence of a docstring, as Markdown on one line.

    >>> sentence(sentence)
    'The first sentence of a docstring, as Markdown on one line.'
    """
    text = inspect.getdoc(thing) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    first = re.match(r"(?s)(.+?[.?!])(?: (?=[A-Z`*])|$)", paragraph)
    plain = _ROLE.sub(r"`\1`", first[1] if first else paragraph)
    return plain.replace("``", "`").replace("|", "\\|").removesuffix("::")


def call(thing: Callable[..., Any], name: str) -> str:
    """Return the call of a function: parameters and defaults, without types.

    >>> call(lambda self, a, *, b=3: None, "f")
    'f(a, *, b=3)'
    """
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return f"{name}(...)"
    shown = []
    for at, one in enumerate(signature.parameters.values()):
        if at == 0 and one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and not any(word.startswith("*") for word in shown):
            shown.append("*")
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        default = "" if one.default is one.empty else f"={_PLACE.sub('...', repr(one.default))}"
        shown.append(f"{star}{one.name}{default}")
    return f"{name}({', '.join(shown)})"


def members(cls: type) -> Iterator[tuple[str, str]]:
    """Return (its call, its first sentence) for each public member of a class, by name."""
    for name, value in inspect.getmembers_static(cls):
        plain = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if name.startswith("_") or not _ours(plain):
            continue
        if isinstance(value, property):
            yield name, sentence(value)
        elif callable(plain):
            yield call(plain, name), sentence(plain)


def _ours(thing: object) -> bool:
    return str(getattr(thing, "__module__", "")).startswith("holdfast")


def _told(cls: type) -> list[str]:
    """Return the fields of an error without its message, from the parameters of ``__init__``.

    >>> _told(holdfast.LockLost), _told(holdfast.StoreUnavailable)
    (['reason'], [])
    """
    if not issubclass(cls, Exception) or "__init__" not in vars(cls):
        return []
    return [name for name in inspect.signature(cls).parameters if name != "message"]


def explained(name: str, thing: Any) -> Iterator[str]:
    """Return the lines about one public name."""
    if not inspect.isclass(thing):
        if not callable(thing):
            kind = type(thing)
            yield from (f"### `{name}`", "", *([sentence(kind), ""] if _ours(kind) else []))
        else:
            yield from (f"### `{call(thing, name)}`", "", sentence(thing), "")
        return
    bases = [base.__name__ for base in thing.__bases__ if base.__module__ != "holdfast.core"]
    kind = f" ({', '.join(bases)})" if issubclass(thing, Exception) else ""
    yield from (f"### `{name}`{kind}", "", sentence(thing), "")
    fields = getattr(thing, "_fields", ()) or _told(thing)
    if issubclass(thing, enum.Enum):
        yield from ("Members: " + ", ".join(f"`{one.name}`" for one in thing) + ".", "")
    if fields:
        yield from ("Fields: " + ", ".join(f"`{field}`" for field in fields) + ".", "")
    twin = getattr(holdfast, name.removeprefix("Async"), None) if name[:5] == "Async" else None
    known = {use.partition("(")[0] for use, _ in members(twin)} if twin else set()
    rows = [(use, text) for use, text in members(thing) if use.partition("(")[0] not in known]
    if twin:
        yield from (f"Has what [`{twin.__name__}`](#{twin.__name__.lower()}) has.", "")
    if rows:
        yield from ("| | |", "|---|---|", *(f"| `{use}` | {text} |" for use, text in rows), "")


def api() -> str:
    """Return the page about all public names."""
    lines = [HEAD]
    for module, page in MODULES.items():
        found = importlib.import_module(module)
        lines += [f"## {module}", "", f"[Explained here]({page}).", ""]
        for name in sorted(found.__all__, key=lambda one: (one.removeprefix("Async"), one)):
            lines += explained(name, getattr(found, name))
    return "\n".join(lines).rstrip() + "\n"


#: Path -> the function that makes it.
WRITTEN: dict[str, Callable[[], str]] = {
    "docs/api.md": api,
    "docs/man/holdfast.1": manual,
}


def main() -> int:
    """Write all pages."""
    for place, make in WRITTEN.items():
        path: Path = ROOT / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make(), encoding="utf-8")
        print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
