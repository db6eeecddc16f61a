"""What a change is: the files that differ from what was landed last.

A usual run plays those of the longest tests and planted bugs that the change is about.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.tidy.tree import ROOT, SRC

#: What the change is compared with, where the environment says it.
BASE = "HOLDFAST_BASE"
#: What tests in these folders are about, where it isn't the code that is named as the folder.
ABOUT = {
    "bench": ["bench"],
    "conformance": ["src/holdfast/testing", "src/holdfast/stores/memory", "src/holdfast/core"],
    "demo": ["src/holdfast/cli/demo"],
    "faults": ["src/holdfast/testing", "src/holdfast/runtime"],
    "guard": ["src/holdfast/core/guard", "src/holdfast/testing/simulator"],
    "harness": ["tests/runner", "tests/fetching", "tests/checks.py", "dev"],
    "interop": ["src/holdfast/dialects"],
    "pages": ["README.md", "docs"],
    "queues": ["src/holdfast/core/queue"],
    "sim": ["src/holdfast/testing/simulator", "src/holdfast/core"],
    "torture": ["src/holdfast/core", "src/holdfast/testing/torture"],
}


def files() -> set[Path] | None:
    """The files that differ from the base; None if nothing says which, as without a history."""
    try:
        told = git("diff", "--name-only", "--relative", base(), "--")
        told += git("ls-files", "--others", "--exclude-standard")
    except (OSError, subprocess.SubprocessError):
        return None
    return {ROOT / one for one in told}


def base() -> str:
    """The commit that this tree is a change of: what was landed last on ``main`` elsewhere, or the
    one before this if that is this one, as where the build server tests what was landed."""
    if given := os.environ.get(BASE):
        return given
    (head,) = git("rev-parse", "HEAD")
    try:
        (landed,) = git("merge-base", "HEAD", "origin/main")
    except subprocess.CalledProcessError:  # there is none
        landed = head
    return landed if landed != head else "HEAD~1"


def git(*words: str) -> list[str]:
    """The lines that it answers; OSError or SubprocessError if it can't."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


def touches(test: Path, changed: Iterable[Path] | None) -> bool:
    """Is the change about what this file tests, or about the file? Not, if nobody knows it."""
    about = [*_about(test)]
    return any(test == one or any(map(one.is_relative_to, about)) for one in changed or ())


def _about(test: Path) -> Iterator[Path]:
    folder, *inner = test.relative_to(ROOT / "tests").parts
    if folder in ABOUT:
        yield from (ROOT / one for one in ABOUT[folder])
    else:
        yield SRC.joinpath(folder, *inner[:1] if folder == "stores" else ())
