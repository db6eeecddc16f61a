"""Work in processes that are forked from this one, so that no work begins with imports."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
#: Work on a job, with a folder for its temporary files. The file ``now`` has the current position.
Work = Callable[[T, Path], str]
#: Maximum bytes of addresses of a process: a bug can collect things without an end.
MEMORY = 4 << 30
#: True in a forked process, whose own forks stay in its process group.
_forked = False


def forked(jobs: Iterable[T], work: Work[T], at_once: int) -> Iterator[tuple[T, str]]:
    """Yield each job and the result of its work, as they end.

    If a process dies, the result is the text of its file ``now``, and its exit code. This process
    must have a single thread, and no other child.
    """
    waiting, running = iter(jobs), dict[int, tuple[T, Path]]()
    try:
        while True:
            for job in islice(waiting, at_once - len(running)):
                place = Path(tempfile.mkdtemp(prefix="hf-"))
                running[_fork(job, work, place)] = job, place
            if not running:
                return
            pid, status = os.wait()
            job, place = running.pop(pid)
            said = _result(place, status)
            _end(pid, place)
            yield job, said
    finally:
        for pid, (_, place) in running.items():
            _end(pid, place)


def _fork(job: T, work: Work[T], place: Path) -> int:
    global _forked
    pid = os.fork()
    if pid == 0:
        try:
            _with_its_parent()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            if not _forked:
                os.setpgid(0, 0)
                _forked = True
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.environ["TMPDIR"] = tempfile.tempdir = str(place)
            said = work(job, place)
            place.joinpath("result").write_text(said, "utf-8")
        except BaseException:
            with place.joinpath("now").open("a", encoding="utf-8") as now:
                traceback.print_exc(file=now)
        finally:
            os._exit(0)
    return pid


def _with_its_parent() -> None:
    """Let this process end as soon as its parent has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _result(place: Path, status: int) -> str:
    with contextlib.suppress(FileNotFoundError):
        return place.joinpath("result").read_text("utf-8")
    now = place / "now"
    code = os.waitstatus_to_exitcode(status)
    return f"{now.read_text('utf-8') if now.exists() else ''}: no end (exit {code})"


def _end(pid: int, place: Path) -> None:
    """End the processes that the work has left, and remove its folder."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    shutil.rmtree(place, ignore_errors=True)
