"""A cache for everything that ``./dev`` fetches, shared by all clones on this machine.

Each item is a folder whose name contains its version. The folder is made under another name and
renamed when it is complete, so no process sees an incomplete one. If another ``./dev`` already
fetches an item, this process waits for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import sleep

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast-dev"
PROJECT = Path(__file__).parents[2]
CONSTRAINTS = PROJECT / "constraints.txt"
#: Seconds of the pauses between two attempts; there is one more attempt than there are pauses.
PAUSES_S = (2.0, 6.0)
#: The errors that a failed attempt raises.
Failed = (subprocess.CalledProcessError, OSError)


def say(text: str) -> None:
    """Write a line for the user that waits."""
    sys.stderr.write(f"dev: {text}\n")
    sys.stderr.flush()


def said(failure: Exception) -> str:
    """The output of the program that failed, or the text of the error."""
    return str(getattr(failure, "stdout", None) or failure).rstrip()


def run(command: Sequence[str | Path], folder: Path = PROJECT, **environment: str) -> None:
    """Run a program in ``folder``; if it fails, the error contains its output."""
    subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )


def pinned(package: str) -> str:
    """The version of a Python package in constraints.txt."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    (version,) = [line.split("==")[1] for line in lines if line.startswith(f"{package}==")]
    return version


def have(folder: Path, make: Callable[[Path], None], pauses: Sequence[float] = PAUSES_S) -> Path:
    """This folder, filled by ``make`` unless it exists; raises one of `Failed`."""
    if folder.is_dir():
        return folder
    with _alone(folder):
        if not folder.is_dir():
            say(f"getting {folder.name} (once)")
            half = folder.with_name(f"{folder.name}.half")
            try:
                _attempt(half, make, pauses)
                half.rename(folder)
            finally:
                shutil.rmtree(half, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another ./dev, which gets {folder.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _attempt(half: Path, make: Callable[[Path], None], pauses: Sequence[float]) -> None:
    for pause in (*pauses, None):
        # Remove the files of the last attempt, or of a process that was killed.
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir()
        try:
            make(half)
            return
        except Failed:
            if pause is None:
                raise
            say(f"that failed; once more in {pause:g} s")
            sleep(pause)
