"""Processes that are forked for one reading: each does its work and returns the result.

They are forked, because 32 new interpreters would take longer to start than the measurement takes.
Forking is safe here: the parent has one thread and has never taken a lock.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

T = TypeVar("T")

_FORK = multiprocessing.get_context("fork")
#: Seconds from "all are ready" to the common start.
LEAD_S = 0.05
START_S = 60.0
_EXIT_S = 2.0


class Failed(Exception):
    """A process of the crew failed, ended without a result, or was not done in time."""


class Seat:
    """One process of a crew: its number, and its connection to the parent."""

    def __init__(self, number: int, wire: Connection) -> None:
        self.number = number
        self._wire = wire

    def ready(self) -> float:
        """Report that this process is set up; wait for the common start; return its time."""
        self._wire.send(("ready", None))
        if not self._wire.poll(START_S):
            raise Failed(f"the others were not ready after {START_S:g} s")
        start: float = self._wire.recv()
        time.sleep(max(0.0, start - time.monotonic()))
        return start


Work = Callable[[Seat], T]


def alone(work: Callable[[], T], within: float) -> T:
    """Do the work in a new process; return its result. ``Failed`` after ``within`` seconds."""
    return together([lambda _: work()], within)[0]


def together(works: Sequence[Work[T]], within: float) -> list[T]:
    """Do the works at the same time, each in a new process; return the results in order.

    When this returns or raises, all processes have ended. ``Failed`` contains the traceback of the
    first process that failed.
    """
    end = time.monotonic() + within
    crew = [_start(number, work) for number, work in enumerate(works)]
    try:
        return _answers([wire for _, wire in crew], within, end)
    finally:
        for process, wire in crew:
            wire.close()
            process.join(_EXIT_S if process.exitcode is None and time.monotonic() < end else 0)
            if process.is_alive():
                process.kill()
            process.join()


def _start(number: int, work: Work[Any]) -> tuple[ForkProcess, Connection]:
    here, there = _FORK.Pipe()
    process = _FORK.Process(target=_live, args=(number, work, there, here), daemon=True)
    process.start()
    there.close()
    return process, here


def _live(number: int, work: Work[Any], wire: Connection, parents: Connection) -> None:
    parents.close()
    try:
        answer = ("done", work(Seat(number, wire)))
    except BaseException:
        answer = ("failed", traceback.format_exc())
    wire.send(answer)


def _answers(wires: Sequence[Connection], within: float, end: float) -> list[Any]:
    """Collect the results of all processes; when all are ready, send them the common start."""
    answers: dict[int, Any] = {}
    ready: set[int] = set()
    while len(answers) < len(wires):
        open_wires = [wire for at, wire in enumerate(wires) if at not in answers]
        heard = wait(open_wires, max(0.0, end - time.monotonic()))
        if not heard:
            raise Failed(f"{len(open_wires)} of {len(wires)} processes not done in {within:g} s")
        for at, wire in enumerate(wires):
            if wire not in heard:
                continue
            kind, value = _hear(wire)
            if kind == "failed":
                raise Failed(value.strip())
            if kind == "done":
                answers[at] = value
            else:
                ready.add(at)
        if ready and len(ready | answers.keys()) == len(wires):
            start = time.monotonic() + LEAD_S
            for at in ready - answers.keys():
                wires[at].send(start)
            ready.clear()
    return [answers[at] for at in range(len(wires))]


def _hear(wire: Connection) -> tuple[str, Any]:
    try:
        kind, value = wire.recv()
    except (EOFError, OSError):
        raise Failed("a process ended without an answer") from None
    return kind, value


@contextlib.contextmanager
def spinners(cores: Sequence[int]) -> Generator[None]:
    """Keep these cores awake, by processes that run only if no other process needs the core."""
    spinning = [_FORK.Process(target=_spin, args=(core,), daemon=True) for core in cores]
    for process in spinning:
        process.start()
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.join()


def _spin(core: int) -> None:
    os.nice(19)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    os.sched_setaffinity(0, {core})
    parent = os.getppid()
    while os.getppid() == parent:
        for _ in range(1_000_000):
            pass
