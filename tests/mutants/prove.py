"""Run the test that must catch a planted bug, with the bug: ``python -m tests.mutants.prove NAME``.

It needs a separate process, as a planted bug stays planted. A command that the test starts doesn't
import the changed modules of this process. So a bug with ``commands`` is planted into a copy of the
source, from which the command starts.

The exit code is that of pytest plus 10. It is 11 if the test has failed, so no other end can be
mistaken for a failed test. With a file as the second argument it writes JSON to that file: how the
test has failed, and a sign that the planted code could not run.
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
    """Plant the bug and run its test; return the exit code of pytest plus 10."""
    os.environ.pop(MODE, None)
    os.environ["HOLDFAST_TORTURE"] = "full" if planted.full else ""
    if planted.commands:
        with _in_commands(planted.edits):
            return tested([planted.node], seen)
    plant(planted.edits)
    return tested([planted.node], seen)


@contextlib.contextmanager
def _in_commands(edits: Sequence[Edit]) -> Generator[None]:
    """Make the tests start their commands from an edited copy of the source."""
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


#: The options of pytest. Assertions stay plain: otherwise pytest would load the modules of an
#: installed holdfast itself, to rewrite their assertions, and would not load the planted ones.
#: ``_NO_MORE`` switches off two plugins. After a failed test they would turn errors of threads and
#: destructors into another exit code.
_WAYS = ("-q", "-x", "--assert=plain", "-p", "no:cacheprovider")
_NO_MORE = ("-p", "no:threadexception", "-p", "no:unraisableexception")


class Seen:
    """A plugin of pytest that keeps how the first test has failed."""

    def __init__(self) -> None:
        self.node = self.failure = ""
        #: A sign that code could not run, or an empty text.
        self.broken = ""

    def pytest_exception_interact(
        self, node: Any, call: pytest.CallInfo[Any], report: pytest.TestReport
    ) -> None:
        """Keep the first error of a test, of its setup or of its teardown."""
        if call.excinfo is None or self.failure:
            return
        error = call.excinfo.value
        self.node, self.failure = report.nodeid, str(failure(error))
        self.broken = broken(error)
        if call.when != "call":
            self.broken = self.broken or f"an error in {call.when}: {self.failure}"


def tested(what: Sequence[str], seen: Seen) -> int:
    """Run these tests until one fails; return the exit code of pytest plus 10."""
    import pytest

    # A separate folder: in the common one, runs that start together delete each other's folders.
    with tempfile.TemporaryDirectory(prefix="holdfast-proof-") as place:
        ways = [*_WAYS, *_NO_MORE, "--basetemp", f"{place}/t", *what]
        return 10 + int(pytest.main(ways, plugins=[seen]))


def main(name: str, told: str = "") -> int:
    """Prove the bug of this name; return the exit code."""
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
