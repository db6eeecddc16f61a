"""Bugs made by rule in scripts: one small change of a statement in Lua or SQL.

The rules are those of ``operators``, but they match the text of a line instead of a tree. They
make a comparison off by one, negate a condition, or leave out a call or an assignment. They swap
``and`` and ``or``, ``min`` and ``max``, a sum and a difference. Comments and quoted texts stay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .operators import Mutation

#: A comment or a quoted text, which does not run.
_IDLE = re.compile(rb"--[^\n]*|'(?:[^'\\\n]|\\.)*'|\"[^\"\n]*\"")


class Rule(NamedTuple):
    """A pattern, and the function ``of`` that returns the replacement of a match."""

    pattern: re.Pattern[bytes]
    of: Callable[[re.Match[bytes]], bytes]


def _rule(pattern: str, new: bytes | dict[bytes, bytes]) -> Rule:
    """Return a rule; ``new`` is a template for the match, or maps the first group to a text."""

    def of(found: re.Match[bytes]) -> bytes:
        return new[found[1]] if isinstance(new, dict) else found.expand(new)

    return Rule(re.compile(pattern.encode(), re.MULTILINE), of)


#: The rules for both languages.
_BOTH = [
    _rule(r"(?<![<>=~])(<=|>=|<|>)(?![<>=])", {b"<": b"<=", b"<=": b"<", b">": b">=", b">=": b">"}),
    _rule(r"(?<=[\w)\]] )([+-])(?= [\w(])", {b"+": b"-", b"-": b"+"}),
]
LUA = [
    *_BOTH,
    _rule(r"(==|~=)", {b"==": b"~=", b"~=": b"=="}),
    _rule(r"\bmath\.(min|max)\b", {b"min": b"math.max", b"max": b"math.min"}),
    _rule(r"\b(and|or)\b", {b"and": b"or", b"or": b"and"}),
    _rule(r"\bnot (?=[\w(])", b""),
    _rule(r"\b(true|false)\b", {b"true": b"false", b"false": b"true"}),
    _rule(r"^( *(?:else)?if )([^\n]*)( then)", rb"\1not (\2)\3"),
    _rule(r"^( *)(?:redis\.)?p?call\([^\n]*\)$", rb"\1"),
    _rule(
        r"^( *)(?!local |return |for |if |elseif |until |while )[\w.\[\]]+ = [^\n]*[\w)'\]}]$",
        rb"\1",
    ),
]
#: A keyword before an equation that is a condition, not an assignment.
_WHERE = (
    "(?:"
    + "|".join(rf"(?<=\b{one} )" for one in ("WHERE", "WHEN", "AND", "NOT", "OR", "IF", "ON"))
    + ")"
)
SQL = [
    *_BOTH,
    _rule(rf"{_WHERE}([\w.]+) = (?=[\w.?:'])", rb"\1 <> "),
    _rule(r"(<>)", {b"<>": b"="}),
    _rule(r"\b(LEAST|GREATEST|least|greatest)\b", {
        b"LEAST": b"GREATEST", b"GREATEST": b"LEAST", b"least": b"greatest", b"greatest": b"least",
    }),
    _rule(r"\b(AND|OR)\b(?! REPLACE)", {b"AND": b"OR", b"OR": b"AND"}),
    _rule(r"(?<!IS )(?<!IF )\bNOT (?!NULL\b|FOUND\b|MATCHED\b|VALID\b)(?=[\w(])", b""),
    _rule(r"\b(true|false)\b", {b"true": b"false", b"false": b"true"}),
    _rule(r"^( *(?:ELSE?IF|IF) )([^\n]*)( THEN)", rb"\1NOT (\2)\3"),
    _rule(r"^( *)PERFORM [^\n]*;$", rb"\1"),
    _rule(r"^( *)[\w.]+ := [^\n]*;$", rb"\1NULL;"),
    _rule(r"^( *)SET \w+ = [^\n]*;$", rb"\1DO 0;"),
    _rule(r"^( *)(?:DELETE FROM|CALL) [^\n]*;$", rb"\1DO 0;"),
]  # fmt: skip
RULES = {".lua": LUA, ".sql": SQL}


def _found(source: bytes, rules: list[Rule]) -> Iterator[Mutation]:
    idle = [one.span() for one in _IDLE.finditer(source)]
    for rule in rules:
        for one in rule.pattern.finditer(source):
            start, end = one.span()
            old, new = one[0], rule.of(one)
            # The change begins outside of comments and quotes; a line left out can contain some.
            changed = start + len(old) - len(old.lstrip())
            if any(left <= changed < right for left, right in idle):
                continue
            words = " ".join(old.decode().split()), " ".join(new.decode().split())
            line = source.count(b"\n", 0, changed) + 1
            yield Mutation(line, f"{words[0]!r} becomes {words[1]!r}", start, end, new.decode())


def mutations(source: bytes, suffix: str) -> list[Mutation]:
    """Return all changes of a script, in the order of their lines."""
    return sorted(_found(source, RULES[suffix]))
