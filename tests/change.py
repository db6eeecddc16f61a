"""The files that differ from the last landed commit.

A usual run plays only the longest tests and planted bugs that concern these files.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.tidy.tree import ROOT, SRC

#: The environment variable that can name the commit to compare with.
BASE = "HOLDFAST_BASE"
#: What the tests in these folders test, if it isn't the source folder of the same name.
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
    """Return the files that differ from the base; None if they are unknown.

    They are unknown, for example, without a git history.
    """
    try:
        told = git("diff", "--name-only", "--relative", base(), "--")
        told += git("ls-files", "--others", "--exclude-standard")
    except (OSError, subprocess.SubprocessError):
        return None
    return {ROOT / one for one in told}


def base() -> str:
    """Return the commit that this tree is compared with: the last landed commit on ``origin/main``.

    If that commit is HEAD, return the commit before it: the build server tests landed commits.
    """
    if given := os.environ.get(BASE):
        return given
    (head,) = git("rev-parse", "HEAD")
    try:
        (landed,) = git("merge-base", "HEAD", "origin/main")
    except subprocess.CalledProcessError:  # there is none
        landed = head
    return landed if landed != head else "HEAD~1"


def git(*words: str) -> list[str]:
    """Run git and return its output lines; OSError or SubprocessError if it fails."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


def touches(test: Path, changed: Iterable[Path] | None) -> bool:
    """Return whether the change touches this test file or the code that it tests.

    Without a known change, the result is False.
    """
    about = [*_about(test)]
    return any(test == one or any(map(one.is_relative_to, about)) for one in changed or ())


def _about(test: Path) -> Iterator[Path]:
    folder, *inner = test.relative_to(ROOT / "tests").parts
    if folder in ABOUT:
        yield from (ROOT / one for one in ABOUT[folder])
    else:
        yield SRC.joinpath(folder, *inner[:1] if folder == "stores" else ())
