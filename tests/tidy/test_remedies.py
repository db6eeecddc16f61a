"""Commands in remedies can be pasted without a change.

They contain no placeholder, and change nothing that exists already or belongs to others.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import holdfast

SOURCES = Path(holdfast.__file__).parent
#: Texts that a remedy must not contain, with the reason.
WRONG = {
    r"ACL SETUSER (?:\.\.\.|[A-Z]+\b)": "it makes a user of that name; see `complaints.rules`",
    r"ALTER ROLE \.\.\.": "the role is missing",
    r"\bTO app\b": "the user is another one",
    r"ALTER SYSTEM": "it changes all applications of the server",
    r"\binstall -d": "it changes a folder that is there, and follows a link",
    r"\bchown (?!-h)|\bchmod (?!g\+|o-|u)\d": "it follows a link",
    r"-g GROUP\b": "the group is missing",
    r"\bdocs/|\w\.md\b": "who installed the package has no pages: say it, or name a command",
}


def said(path: Path) -> list[str]:
    """Return every string that isn't a docstring, with {} for the fields of an f-string."""
    tree = ast.parse(path.read_text())
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (one.value if isinstance(one, ast.Constant) else "{}" for one in node.values)
            found.append("".join(map(str, parts)))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        ):
            found.append(node.value)
    return found


def test_no_remedy_changes_what_is_there_or_has_a_placeholder() -> None:
    wrong = [
        f"{path.relative_to(SOURCES)}: {text!r}: {why}"
        for path in sorted(SOURCES.rglob("*.py"))
        for text in said(path)
        for pattern, why in WRONG.items()
        if re.search(pattern, text)
    ]
    assert not wrong, "\n".join(wrong)
