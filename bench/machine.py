"""The machine: what it is, what else runs on it, and waiting until it is quiet."""

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

#: Below this part of all cores, what others do is not worth waiting for.
QUIET_PART = 0.08
#: Above this part, a reading was disturbed.
SPOILT_PART = 0.2
#: Servers that we have started, by their process ids: what they use is ours, and they go along
#: into a regime.
companions: set[int] = set()
#: Seconds that a look takes, and for which it is believed; a shorter reading can't be judged.
_LOOK_S, _GOOD_FOR_S, _LONG_S = 0.25, 1.5, 0.4


def describe() -> str:
    """One line about what the figures were measured on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    virtual = ", virtual" if "hypervisor" in _cpuinfo("flags") else ""
    return (
        f"{cores} cores ({_cpuinfo('model name') or platform.machine()}{virtual}), "
        f"{platform.system()} {platform.release().split('-')[0]}, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )


def files() -> str:
    """What locks in files are kept with."""
    kind = _file_system(tempfile.gettempdir())
    return f"SQLite {sqlite3.sqlite_version}, files on {kind}"


def versions(packages: list[str]) -> dict[str, str]:
    """The versions of those packages that are installed."""
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
    """The kind of file system that a folder lies on: that of the longest mount point above it."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "an unknown file system"
    kinds = {point: kind for _, point, kind, *_ in (line.split() for line in lines)}
    above = [p for p in kinds if os.path.commonpath([p, os.path.realpath(folder)]) == p]
    return kinds[max(above, key=len)] if above else "an unknown file system"


# -- what else runs ---------------------------------------------------------------------------


class Used(NamedTuple):
    """Seconds of all cores together that others used, of so many that passed.

    ``niced`` is by programs of low priority, which yield to ours but keep a core awake; our own
    spinners are among them.
    """

    foreign: float = 0.0
    niced: float = 0.0
    passed: float = 0.0

    def plus(self, other: Used) -> Used:
        """Both together."""
        return Used(*map(sum, zip(self, other, strict=True)))

    def parts(self) -> tuple[float, float] | tuple[None, None]:
        """What others used as parts of all, from 0 to 1; None where the system doesn't tell."""
        if not self.passed:
            return None, None
        foreign, niced = (min(1.0, max(0.0, one / self.passed)) for one in self[:2])
        return round(foreign, 3), round(niced, 3)


class Load:
    """How much of the cores others have used since this was made.

    Our own part is that of this process and of the children that it has waited for by then, so
    ask between readings.
    """

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self._busy, self._own = _busy_s(), _own_s()

    def used(self) -> Used:
        """Until now."""
        busy = _busy_s()
        if self._busy is None or busy is None:
            return Used()
        foreign = busy[0] - self._busy[0] - (_own_s() - self._own)
        passed = (time.monotonic() - self.begun) * (os.cpu_count() or 1)
        return Used(foreign, busy[1] - self._busy[1], passed)

    def foreign(self) -> float | None:
        """The part that programs of usual priority used until now."""
        return self.used().parts()[0]


def _busy_s() -> tuple[float, float] | None:
    """Seconds for which the cores have worked, by the kernel's count: as usual, and niced."""
    try:
        with Path("/proc/stat").open(encoding="ascii") as stat:
            user, nice, system, _, _, irq, soft, steal, *_ = map(int, stat.readline().split()[1:])
    except OSError:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    return (user + system + irq + soft + steal) / ticks, nice / ticks


def _own_s() -> float:
    """Seconds that this process, its finished children and its companions have worked."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both) + sum(map(_used_s, companions))


def _used_s(pid: int) -> float:
    """Seconds that a process has worked; 0 if it is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Quiet:
    """Waits until others leave the machine alone, for so many seconds in all.

    A reading that they disturb all the same is taken again, at the expense of the same time.
    Without time it waits for nothing and takes everything as it comes.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self._seen = -_GOOD_FOR_S

    def wait(self) -> None:
        """Return when the machine is quiet, or when the time is used up."""
        while self.left > 0 and time.monotonic() - self._seen > _GOOD_FOR_S:
            load = Load()
            time.sleep(_LOOK_S)
            self.left -= _LOOK_S
            foreign = load.foreign()
            if foreign is None or foreign < QUIET_PART:
                self._seen = time.monotonic()

    def spoilt(self, load: Load) -> bool:
        """Was what has been done since this load was made disturbed, and is there time for more?"""
        took = time.monotonic() - load.begun
        foreign = load.foreign()
        if took < _LONG_S or self.left <= 0 or foreign is None or foreign < SPOILT_PART:
            return False
        self.left -= took
        self._seen = -_GOOD_FOR_S
        return True
