"""Run the test that must catch a planted bug, with the bug: ``python -m tests.mutants.prove N``.

A process of its own, as a bug stays planted. A command that the test starts would know nothing of
it: such a bug stands in a copy of the source, from which the command is started.

It ends as pytest does, plus 10: 11 if the test has failed, so that an end of any other kind can't
be taken for that.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

from .plant import Edit, edited, plant
from .planted import PLANTED


def prove(number: int) -> int:
    """Plant the bug and run its test; pytest's exit code, and 10."""
    planted = PLANTED[number]
    os.environ["HOLDFAST_TORTURE"] = "full" if planted.full else ""
    if planted.commands:
        with _in_commands(planted.edits):
            return _tested(planted.node)
    plant(planted.edits)
    return _tested(planted.node)


@contextlib.contextmanager
def _in_commands(edits: Sequence[Edit]) -> Generator[None]:
    """What the tests of the command start comes from an edited copy of the source."""
    from tests.cli import world

    with tempfile.TemporaryDirectory(prefix="holdfast-planted-") as place:
        copy = Path(place) / "src"
        shutil.copytree(
            world.ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        for module in {edit.module for edit in edits}:
            path = copy.joinpath(*module.split(".")).with_suffix(".py")
            path.write_text(edited(module, path.read_text("utf-8"), edits), "utf-8")
        world.ROOT = Path(place)
        yield


#: What pytest is told. Plain, because where holdfast is installed pytest would load its modules
#: itself, to rewrite their assertions, and never ask for those that are planted. The two plugins
#: make an end of another kind of what threads and destructors say when a test has failed.
_WAYS = ("-q", "-x", "--assert=plain", "-p", "no:cacheprovider")
_NO_MORE = ("-p", "no:threadexception", "-p", "no:unraisableexception")


def _tested(node: str) -> int:
    import pytest

    # A folder of its own: in the common one several that start at once clear each other's away.
    with tempfile.TemporaryDirectory(prefix="holdfast-proof-") as place:
        return 10 + int(pytest.main([*_WAYS, *_NO_MORE, "--basetemp", f"{place}/t", node]))


if __name__ == "__main__":
    sys.exit(prove(int(sys.argv[1])))
