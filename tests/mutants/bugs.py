"""What a planted bug is that a test with the real world must catch."""

from __future__ import annotations

from typing import NamedTuple

from .plant import Edit


class Planted(NamedTuple):
    """A bug, and the test that must fail with it."""

    name: str
    node: str
    edits: tuple[Edit, ...]
    #: Only the whole of its attempts is sure to find it.
    full: bool
    #: It is proven only with ``HOLDFAST_TORTURE=full``, as that takes long.
    seldom: bool = False
    #: It is planted into the commands that the tests of ``tests/cli`` start, not into the test.
    commands: bool = False


def bug(
    name: str,
    node: str,
    *edits: tuple[str, str, str],
    full: bool = False,
    seldom: bool = False,
    commands: bool = False,
) -> Planted:
    """A planted bug: in a module, a text that stands there once becomes another."""
    return Planted(name, node, tuple(Edit(*edit) for edit in edits), full, seldom, commands)
