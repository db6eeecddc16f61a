"""Whether the user may do what refresh guards need besides, which programs without them don't."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .....core.finding import Finding, Level
from ...complaints import ServerSaid, rules
from ...keys import tag_of
from ...library import VALUE_SCRIPTS
from . import rights
from .visit import Visit, well

#: How each command is tried that the locks don't call: on a key that isn't there, without effect.
TRIALS: dict[str, tuple[bytes, ...]] = {
    "getrange": (b"0", b"0"),
    "strlen": (),
    # Not a number: that is only noticed by the command itself, after the rights.
    "hincrby": (b"x", b"x"),
    "zrange": (b"0", b"0"),
}


def needed() -> frozenset[str]:
    """Every command that refresh guards call, and locks don't."""
    called = {
        name.decode().lower()
        for script in VALUE_SCRIPTS
        for name in re.findall(rb"call\(\s*'(\w+)'", script.text)
    }
    return frozenset(called - set(rights.TRIALS) - {"publish", "spublish"})


def examine(visit: Visit) -> Iterator[Finding]:
    """Which of them may not be called, or aren't there?"""
    key = f"{visit.prefix}:{tag_of(visit.buckets[0])}=".encode() + visit.word
    names = sorted(needed())
    said = visit.ask_many([(name.upper().encode(), key, *TRIALS[name]) for name in names])
    missing = [
        name
        for name, one in zip(names, said, strict=True)
        if isinstance(one, ServerSaid)
        and (one.code == "NOPERM" or one.text.lower().startswith("unknown command"))
    ]
    if not missing:
        yield well("values", "refresh guards may keep their values here")
        return
    words = ", ".join(name.upper() for name in missing)
    yield Finding(
        Level.WARN,
        "values",
        f"{visit.user} may not call {words}: refresh guards (client.guard) don't work here",
        "if they are wanted: " + rules(visit.user_name, *(f"+{name}" for name in missing)),
    )
