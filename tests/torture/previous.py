"""The previous release: the code that may share a store with this tree.

Nothing is released yet, so it is a commit. ``git archive`` writes its code into the cache of
``./dev``, so no network is needed. CONTRIBUTING.md states when `COMMIT` moves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile

from tests import forked
from tests.fetching.cache import CACHE, PROJECT, have

#: The last commit with the previous layouts and procedures that this tree works with.
COMMIT = "f932ae043784e7527073faa64d6039dad4a81f2d"
#: Prints the folder of the package that a process imports.
_WHERE = "import holdfast; print(holdfast.__path__[0])"


@cache
def environment() -> dict[str, str]:
    """Return the environment of a process that runs the previous release instead of this tree."""
    return environment_of(have(CACHE / f"previous-{COMMIT}", _extract, pauses=()) / "src")


def environment_of(source: Path) -> dict[str, str]:
    """Return the environment of a process that imports holdfast from the folder ``source``."""
    found = {"PYTHONPATH": os.pathsep.join([str(source), str(PROJECT)])}
    forked.RELEASES.add(found["PYTHONPATH"])
    run = [sys.executable, "-c", _WHERE]
    where = subprocess.check_output(run, env={**os.environ, **found}, text=True).strip()
    if Path(where) != source / "holdfast":
        raise RuntimeError(f"the release is in {source}, but Python imports {where}")
    return found


def _extract(folder: Path) -> None:
    command = ["git", "-C", str(PROJECT), "archive", COMMIT, "src"]
    with TemporaryFile() as archive:
        done = subprocess.run(command, stdout=archive, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(
                f"the tests with the previous release need its commit {COMMIT[:8]}, which this "
                f"clone lacks: fetch the whole history (git fetch --unshallow): {done.stderr}"
            )
        archive.seek(0)
        with tarfile.open(fileobj=archive) as packed:
            packed.extractall(folder, filter="data")
