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
