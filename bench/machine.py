"""The machine: its description, the load of other programs, and the wait until it is quiet."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

#: The machine is quiet if other programs use less than this part of all cores.
QUIET_PART = 0.08
#: A reading is disturbed if other programs used at least this part of all cores.
SPOILT_PART = 0.2
#: The process ids of the servers that this run has started. Their load isn't that of other
#: programs, and a regime applies to them too.
companions: set[int] = set()
#: Seconds that a check of the load takes; seconds for which its result is used; minimum seconds of
#: a reading whose load can be judged.
_LOOK_S, _GOOD_FOR_S, _LONG_S = 0.25, 1.5, 0.4


def describe() -> str:
    """Return one line about the machine: cores, system and Python."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    virtual = ", virtual" if "hypervisor" in _cpuinfo("flags") else ""
    return (
        f"{cores} cores ({_cpuinfo('model name') or platform.machine()}{virtual}), "
        f"{platform.system()} {platform.release().split('-')[0]}, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )


def files() -> str:
    """Return the version of SQLite and the file system of the temporary folder, as text."""
    kind = _file_system(tempfile.gettempdir())
    return f"SQLite {sqlite3.sqlite_version}, files on {kind}"


def versions(packages: list[str]) -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cpuinfo(field: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == field:
            return value.strip()
    return ""


def _file_system(folder: str) -> str:
    """Return the kind of a folder's file system: that of the longest mount point above it."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "an unknown file system"
    kinds = {point: kind for _, point, kind, *_ in (line.split() for line in lines)}
    above = [p for p in kinds if os.path.commonpath([p, os.path.realpath(folder)]) == p]
    return kinds[max(above, key=len)] if above else "an unknown file system"


# -- what else runs ---------------------------------------------------------------------------


class Used(NamedTuple):
    """Seconds of all cores together: used by other programs (``foreign``, ``niced``), and passed.

    ``niced`` is the time of programs of low priority. These yield to ours but keep a core awake.
    It includes our own spinners.
    """

    foreign: float = 0.0
    niced: float = 0.0
    passed: float = 0.0

    def plus(self, other: Used) -> Used:
        """Return the sum of both."""
        return Used(*map(sum, zip(self, other, strict=True)))

    def parts(self) -> tuple[float, float] | tuple[None, None]:
        """Return ``foreign`` and ``niced`` as parts of ``passed``, from 0 to 1; None if unknown."""
        if not self.passed:
            return None, None
        foreign, niced = (min(1.0, max(0.0, one / self.passed)) for one in self[:2])
        return round(foreign, 3), round(niced, 3)


class Load:
    """Measures the time of the cores that other programs use, from the creation of this object.

    The time of this process, its ended children and its companions is subtracted. A child that
    still runs counts as another program, so call the methods between readings.
    """

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self._busy, self._own = _busy_s(), _own_s()

    def used(self) -> Used:
        """Return the seconds used from the creation until now."""
        busy = _busy_s()
        if self._busy is None or busy is None:
            return Used()
        foreign = busy[0] - self._busy[0] - (_own_s() - self._own)
        passed = (time.monotonic() - self.begun) * (os.cpu_count() or 1)
        return Used(foreign, busy[1] - self._busy[1], passed)

    def foreign(self) -> float | None:
        """Return the part that other programs of usual priority used until now."""
        return self.used().parts()[0]


def _busy_s() -> tuple[float, float] | None:
    """Return the kernel's seconds of work of all cores: at usual priority, and at low priority."""
    try:
        with Path("/proc/stat").open(encoding="ascii") as stat:
            user, nice, system, _, _, irq, soft, steal, *_ = map(int, stat.readline().split()[1:])
    except OSError:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    return (user + system + irq + soft + steal) / ticks, nice / ticks


def _own_s() -> float:
    """Return the seconds of work of this process, its ended children and its companions."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both) + sum(map(_used_s, companions))


def _used_s(pid: int) -> float:
    """Return the seconds of work of a process; 0 if it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Quiet:
    """Waits until other programs leave the machine alone, for at most ``seconds`` in all.

    A reading that is disturbed is taken again; its time is subtracted from the same ``seconds``.
    When none are left, there is no wait, and every reading is used.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self._seen = -_GOOD_FOR_S

    def wait(self) -> None:
        """Wait until the machine is quiet, or until no time is left."""
        while self.left > 0 and time.monotonic() - self._seen > _GOOD_FOR_S:
            load = Load()
            time.sleep(_LOOK_S)
            self.left -= _LOOK_S
            foreign = load.foreign()
            if foreign is None or foreign < QUIET_PART:
                self._seen = time.monotonic()

    def spoilt(self, load: Load) -> bool:
        """Return True if the reading since ``load`` began was disturbed, and time is left.

        The caller then takes the reading again."""
        took = time.monotonic() - load.begun
        foreign = load.foreign()
        if took < _LONG_S or self.left <= 0 or foreign is None or foreign < SPOILT_PART:
            return False
        self.left -= took
        self._seen = -_GOOD_FOR_S
        return True
