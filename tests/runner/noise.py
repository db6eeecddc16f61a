"""A noisy machine: the effects of a shared host on its tests.

One busy process runs for each processor, and everything stops at times. About every ``MEAN_S``
seconds each processor runs a real-time loop for up to ``LONGEST_S`` seconds, so that nothing else
runs. If that isn't allowed, all descendants of the caller are stopped and continued (SIGSTOP,
SIGCONT).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Generator
from pathlib import Path

#: Mean seconds between two stops; shortest and longest stop.
MEAN_S = 20.0
SHORTEST_S, LONGEST_S = 0.3, 2.5

_context = multiprocessing.get_context("spawn")


@contextlib.contextmanager
def noise(seed: int) -> Generator[None]:
    """Make noise while the body runs; the same seed gives the same stops."""
    processors = os.cpu_count() or 1
    busy = [_context.Process(target=_busy, daemon=True) for _ in range(processors)]
    over = threading.Event()
    real_time = may_be_real_time()
    stops = threading.Thread(target=_stops, args=(seed, real_time, over, os.getpid()), daemon=True)
    for process in busy:
        process.start()
    stops.start()
    try:
        yield
    finally:
        over.set()
        stops.join()
        for process in busy:
            process.kill()
            process.join()


def may_be_real_time() -> bool:
    """Return whether this process is allowed to block a processor by a real-time loop."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except PermissionError:
        return False
    os.sched_setscheduler(0, *before)
    return True


def _busy() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        for _ in range(1_000_000):
            pass


def _stops(seed: int, real_time: bool, over: threading.Event, root: int) -> None:
    dice = random.Random(seed)
    while not over.wait(dice.expovariate(1 / MEAN_S)):
        length = dice.uniform(SHORTEST_S, LONGEST_S)
        if real_time:
            processors = range(os.cpu_count() or 1)
            args = [(one, time.monotonic() + length) for one in processors]
            processes = [_fork(*one) for one in args]
            for pid in processes:
                os.waitpid(pid, 0)
        else:
            _stop_descendants(root, length)


def _fork(processor: int, until: float) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            os.sched_setaffinity(0, {processor})
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
            while time.monotonic() < until:
                pass
        finally:
            os._exit(0)
    return pid


def _stop_descendants(root: int, length: float) -> None:
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
                parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found: set[int] = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    found.remove(root)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number is signal.SIGSTOP:
            time.sleep(length)
