"""Run the test that must catch a planted bug, with the bug: ``python -m tests.mutants.prove NAME``.

A process of its own, as a bug stays planted. A command that the test starts would know nothing of
it: such a bug stands in a copy of the source, from which the command is started.

It ends as pytest does, plus 10: 11 if the test has failed, so that an end of any other kind can't
be taken for that. With a file as the second argument it writes there, as JSON, how the test has
failed, and what says that the planted code could not run at all.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bugs import Planted
from .failure import MODE, NOTES, broken, failure, noted, watched
from .plant import Edit, edited, plant
from .planted import PLANTED

if TYPE_CHECKING:
    import pytest


def prove(planted: Planted, seen: Seen) -> int:
    """Plant the bug and run its test; pytest's exit code, and 10."""
    os.environ.pop(MODE, None)
    os.environ["HOLDFAST_TORTURE"] = "full" if planted.full else ""
    if planted.commands:
        with _in_commands(planted.edits):
            return tested([planted.node], seen)
    plant(planted.edits)
    return tested([planted.node], seen)


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
            tree = watched(edited(module, path.read_text("utf-8"), edits), os.environ[NOTES])
            path.write_text(ast.unparse(tree), "utf-8")
        world.ROOT = Path(place)
        yield


#: What pytest is told. Plain, because where holdfast is installed pytest would load its modules
#: itself, to rewrite their assertions, and never ask for those that are planted. The two plugins
#: make an end of another kind of what threads and destructors say when a test has failed.
_WAYS = ("-q", "-x", "--assert=plain", "-p", "no:cacheprovider")
_NO_MORE = ("-p", "no:threadexception", "-p", "no:unraisableexception")


class Seen:
    """A plugin of pytest: how the first test has failed."""

    def __init__(self) -> None:
        self.node = self.failure = ""
        #: What says that code could not run.
        self.broken = ""

    def pytest_exception_interact(
        self, node: Any, call: pytest.CallInfo[Any], report: pytest.TestReport
    ) -> None:
        """An error in a test, or in what is around it."""
        if call.excinfo is None or self.failure:
            return
        error = call.excinfo.value
        self.node, self.failure = report.nodeid, str(failure(error))
        self.broken = broken(error)
        if call.when != "call":
            self.broken = self.broken or f"an error in {call.when}: {self.failure}"


def tested(what: Sequence[str], seen: Seen) -> int:
    """Run these tests until one fails; pytest's exit code, and 10."""
    import pytest

    # A folder of its own: in the common one several that start at once clear each other's away.
    with tempfile.TemporaryDirectory(prefix="holdfast-proof-") as place:
        ways = [*_WAYS, *_NO_MORE, "--basetemp", f"{place}/t", *what]
        return 10 + int(pytest.main(ways, plugins=[seen]))


def main(name: str, told: str = "") -> int:
    """Prove the bug of this name."""
    seen = Seen()
    with tempfile.TemporaryDirectory(prefix="holdfast-notes-") as place:
        os.environ[NOTES] = f"{place}/notes"
        code = prove(next(one for one in PLANTED if one.name == name), seen)
        found = {"failure": seen.failure, "broken": seen.broken or noted()}
    if told:
        Path(told).write_text(json.dumps(found), "utf-8")
    else:
        print(found)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
