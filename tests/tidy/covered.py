"""The least that each rule must examine: a rule that examines nothing is never broken.

Numbers are floors, a little below the current figures; raise a floor when its figure has grown
much. Lists of names are complete: add each new store to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sized

#: The least number of files, functions or imports that each rule must examine.
FLOORS = {
    "files of at most 400 lines": 850,
    "functions of at most 60 lines": 9500,
    "pure files": 55,
    "imports of pure files": 190,
    "files with rooms": 250,
    "imports of files with rooms": 1000,
    "one clock": 420,
    "real timers": 290,
    "nothing turns data into code": 420,
    "nothing is left to be done": 900,
    "nothing names its place": 900,
    "classes of a face": 14,
    "functions of a face": 2,
    "commands": 18,
    "flags of commands": 90,
    "public names": 38,
    "modules with examples": 40,
    "pages": 130,
    "pages with Python that runs": 8,
    "pages with shell that runs": 2,
    "files of tests": 270,
}

STORES = {"memory", "mysql", "postgres", "redis", "sqlite", "zookeeper"}
DIALECTS = {"plain", "redisson", "timestamp"}
_STORE_FILES = {f"holdfast.stores.{one}.store" for one in STORES}
_DIALECT_FILES = {f"holdfast.dialects.{one}.store" for one in DIALECTS}
#: By contract of import-linter, and by each expression in it: the modules that it must name, or
#: their least number. An expression without a wildcard names one module, which must exist.
CONTRACTS: dict[str, dict[str, set[str] | int]] = {
    "cli, testing -> faces -> dialects -> stores, fenced, sql, caches"
    " -> url, runtime -> core -> errors": {},
    "stores don't know each other": {
        "holdfast.stores.*": {f"holdfast.stores.{one}" for one in STORES},
    },
    "dialects don't know each other": {},
    "a runtime knows the contract of the core, and nothing above it": {
        "holdfast.runtime.**": 4,
    },
    "store.py knows the contract of the core and the names of its errors": {
        "holdfast.stores.*.store": _STORE_FILES,
        "holdfast.dialects.*.store": _DIALECT_FILES,
        "holdfast.stores.**": 150,
        "holdfast.dialects.**": 20,
    },
    "no two rooms import each other": {},
}


def enough(what: str, seen: Sized | int) -> None:
    """Fail if a rule has examined fewer things than its floor."""
    number = seen if isinstance(seen, int) else len(seen)
    assert number >= FLOORS[what], f"{what}: only {number} were looked at, not {FLOORS[what]}"


def matching(expression: str, modules: Iterable[str]) -> set[str]:
    """Return the modules that an expression of import-linter names.

    >>> sorted(matching("a.*", ["a", "a.b", "a.b.c"])), sorted(matching("a.**", ["a", "a.b.c"]))
    (['a.b'], ['a.b.c'])
    """
    pattern = re.escape(expression).replace(r"\*\*", r"[\w.]+").replace(r"\*", r"\w+")
    return {module for module in modules if re.fullmatch(pattern, module)}
