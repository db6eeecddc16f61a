"""Parameter styles of database drivers (PEP 249), so that one text serves all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

#: The form of a parameter in each paramstyle of PEP 249. ``name``: the name of the parameter;
#: ``at``: its number in the statement, from 1.
STYLES = {
    "qmark": "?",
    "numeric": ":{at}",
    "named": ":{name}",
    "format": "%s",
    "pyformat": "%({name})s",
}
#: `STYLES`, and the style that SQLAlchemy adds for asyncpg.
_ALL = {**STYLES, "numeric_dollar": "${at}"}


def render(text: str, style: str, values: Mapping[str, Any]) -> tuple[str, Any]:
    """Return a statement in a paramstyle, and its parameters in the form that the style needs.

    >>> render("a = <x> AND b < <y> AND c = <x>", "numeric", {"x": 1, "y": 2})
    ('a = :1 AND b < :2 AND c = :3', (1, 2, 1))
    """
    sql, used = _written(text, style)
    if style in ("named", "pyformat"):
        return sql, {name: values[name] for name in used}
    return sql, tuple(values[name] for name in used)


@lru_cache(512)
def _written(text: str, style: str) -> tuple[str, tuple[str, ...]]:
    """Return the statement, and the names of its parameters in their order."""
    used: list[str] = []

    def mark(found: re.Match[str]) -> str:
        used.append(found[1])
        return _ALL[style].format(at=len(used), name=found[1])

    sql = re.sub(r"<(\w+)>", mark, text)
    return sql, tuple(used)
