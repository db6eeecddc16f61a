"""The type of a planted bug that a test with real processes, files or servers must catch."""

from __future__ import annotations

from typing import NamedTuple

from .plant import Edit


class Planted(NamedTuple):
    """A bug, and the test that must fail with it."""

    name: str
    node: str
    edits: tuple[Edit, ...]
    #: True if its test runs with ``HOLDFAST_TORTURE=full``; fewer attempts can miss the bug.
    full: bool
    #: True if only a full run proves it: the proof takes a long time, or can miss the bug.
    seldom: bool = False
    #: True if it is planted into the commands that the test starts, not into the test.
    commands: bool = False


def bug(
    name: str,
    node: str,
    *edits: tuple[str, str, str],
    full: bool = False,
    seldom: bool = False,
    commands: bool = False,
) -> Planted:
    """Return a planted bug; an edit is a module, a text that occurs once in it, and a new text."""
    return Planted(name, node, tuple(Edit(*edit) for edit in edits), full, seldom, commands)


class Scripts(NamedTuple):
    """The place in a module where the text of a script is read."""

    module: str
    #: The code that reads it, and the index in this code after the part whose value is the text.
    code: str
    at: int
    #: True if the text is bytes.
    raw: bool


REDIS = Scripts(
    "holdfast.stores.redis.library",
    '_included(folder, name + ".lua").strip()',
    40,
    True,
)
REDISSON = Scripts(
    "holdfast.dialects.redisson.library", "script_of(name, assembled(name, _FOLDER))", 40, True
)
POSTGRES = Scripts(
    "holdfast.stores.postgres.ddl",
    'files.text("holdfast.stores.postgres", "schema", f"{part}.sql")',
    63,
    False,
)


def in_scripts(scripts: Scripts, *texts: tuple[str, str]) -> tuple[str, str, str]:
    """Return an edit that replaces texts in each script that contains them."""
    given = [tuple(one.encode() for one in pair) if scripts.raw else pair for pair in texts]
    changed = "".join(f".replace({old!r}, {new!r})" for old, new in given)
    code, at = scripts.code, scripts.at
    return scripts.module, code, code[:at] + changed + code[at:]
