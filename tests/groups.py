"""All tests, in several processes at once, because most of their time they wait for something.

``python -m tests.groups`` runs every group below, each in a process of its own, a few at a time;
what a process has said is shown when it ends, and at last the sum. ``python -m tests.groups kit
redis`` runs only these. No plugin hands the tests out one by one, because those of one folder share
servers, and count threads. Before all others, a few tests have the machine to themselves: those
that say how many milliseconds something takes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, NamedTuple

TESTS = Path(__file__).parent
#: So many groups run side by side, on two cores: most of their time they wait.
AT_ONCE = 4
#: Who doesn't heed a Ctrl-C is ended after so many seconds.
GRACE_S = 10.0


class Group(NamedTuple):
    """What one process runs: these folders and files, without what is another group's inside."""

    name: str
    paths: tuple[str, ...]
    #: Of these only tests with such names, as pytest's ``-k`` has it; another group has ``not``.
    only: str = ""


#: Tests that measure.
ALONE = Group(
    "alone", ("stores/sqlite/test_death.py", "torture/test_death.py", "cli/test_start.py")
)
#: Where the runs of the kit are that are work of our own process, and those on servers.
KIT, HERE = "conformance/test_conformance.py", "[memory- or [sqlite-"
#: What takes long comes first, so that the last ones to end are short. A folder that no group
#: names, be it beside these or in ``stores``, is a group of its own, and begins before all others.
GROUPS = (
    Group("torture", ("torture", "sim", "stores/redis/test_torture.py")),
    Group("redis", ("stores/redis",)),
    Group("several", ("stores/redis/several", "stores/redis/aio", "traps")),
    Group("command", ("cli", "bench", "demo", "tidy", "typing")),
    Group("fenced", ("fenced", "mutants")),
    Group("kit-servers", (KIT,), only=f"not ({HERE})"),
    Group("kit", (KIT,), only=HERE),
    Group("core", ("core", "conformance", "faults", "servers", "stores/sqlite", "testing")),
)


def tests() -> list[str]:
    """Every file of tests, as the groups name them."""
    return sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))


def groups() -> list[Group]:
    """All groups but the one that runs before them: those with names, after those without."""
    named = [ALONE, *GROUPS]
    unnamed = [file for file in tests() if not any(covers(one, file) for one in named)]
    return [*(Group(place, (place,)) for place in sorted(set(map(_place, unnamed)))), *GROUPS]


def _place(file: str) -> str:
    """The folder that is a group of its own where no group names this file."""
    parts = file.split("/")
    return "/".join(parts[: 2 if parts[0] == "stores" and len(parts) > 2 else 1])


def covers(group: Group, file: str) -> bool:
    """Is the file, or a folder that it is in, named by the group?"""
    return any(_inside(file, path) for path in group.paths)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def command(group: Group, everything: Iterable[Group]) -> list[str]:
    """What runs the group: its paths, without those that others have inside them."""
    others = {path for one in everything for path in one.paths} - set(group.paths)
    inner = sorted(path for path in others if covers(group, path))
    return [
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
        *(["-k", group.only] if group.only else []),
        *(str(TESTS / path) for path in group.paths),
        *(f"--ignore={TESTS / path}" for path in inner),
    ]


class Process:
    """A group that runs."""

    def __init__(self, group: Group, everything: Sequence[Group]) -> None:
        self.group = group
        self._begun = time.monotonic()
        self._said: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            command(group, everything), stdout=self._said, stderr=subprocess.STDOUT
        )
        self.pid = self._process.pid

    def ended(self, status: int, cpu: float) -> tuple[int, str]:
        """Show what it has said; pytest's exit code and its last line."""
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - self._begun
        how = "passed" if code == 0 else f"FAILED ({code})"
        tell(f"{self.group.name} {how} in {took:.0f} s, {cpu:.0f} s of them at work")
        return code, self._show().rstrip().rpartition("\n")[2]

    def end(self, told: bool) -> None:
        """End it before its time, and show how far it came; a Ctrl-C has told it already."""
        if not told:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._show()

    def _show(self) -> str:
        self._said.seek(0)
        said = self._said.read()
        self._said.close()
        sys.stdout.write(said)
        sys.stdout.flush()
        return said


def run(
    chosen: Sequence[Group], everything: Sequence[Group], at_once: int
) -> list[tuple[int, str]]:
    """Run these, so many at once; pytest's exit code and last line of each."""
    waiting, running, done = list(chosen), dict[int, Process](), list[tuple[int, str]]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                process = Process(waiting.pop(0), everything)
                running[process.pid] = process
                tell(f"{process.group.name} has begun")
            pid, status, used = os.wait3(0)
            done.append(running.pop(pid).ended(status, used.ru_utime + used.ru_stime))
    except BaseException as why:
        for process in running.values():
            process.end(told=isinstance(why, KeyboardInterrupt))
        raise
    return done


def tell(what: str) -> None:
    """Say it to whoever looks on."""
    sys.stderr.write(f"tests: {what}\n")
    sys.stderr.flush()


def summed(lines: Iterable[str], seconds: float) -> str:
    """The last lines of several runs of pytest as one.

    >>> summed(["== 3 passed, 1 skipped in 2.00s ==", "4 passed in 1.20s (0:00:01)"], 3.5)
    '7 passed, 1 skipped in 3.50s'
    """
    found: Counter[str] = Counter()
    for line in lines:
        for number, what in re.findall(r"(\d+) ([a-z]+)", line.partition(" in ")[0]):
            found[what] += int(number)
    return f"{', '.join(f'{n} {what}' for what, n in found.items())} in {seconds:.2f}s"


def main(*names: str) -> int:
    """Run all, or the groups of these names; 0 if all tests passed."""
    begun = time.monotonic()
    everything = [ALONE, *groups()]
    chosen = [one for one in everything if not names or one.name in names]
    if missing := set(names) - {one.name for one in chosen}:
        tell(
            f"no group {', '.join(sorted(missing))}; there are "
            + ", ".join(one.name for one in everything)
        )
        return 64
    done = run([one for one in chosen if one is ALONE], everything, 1)
    done += run([one for one in chosen if one is not ALONE], everything, AT_ONCE)
    # Last, as pytest says it.
    print(summed((line for _, line in done), time.monotonic() - begun), flush=True)
    return max(abs(code) for code, _ in done)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main(*sys.argv[1:]))
