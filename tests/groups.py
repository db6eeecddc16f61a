"""All tests, in several processes at once, because most of their time they wait for something.

``python -m tests.groups`` runs every group below, each in a process of its own, a few at a time;
what a process has said is shown when it ends, and at last the sum. ``python -m tests.groups kit
redis`` runs only these. No plugin hands the tests out one by one, because those of one folder share
servers, and count threads. Before all others, a few tests have the machine to themselves: those
that say how many milliseconds something takes. ``python -m tests.groups quick`` runs what needs
no server.
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
#: Groups that run side by side: these keep two cores busy, and leave each test its time.
AT_ONCE = 2
#: Seconds after which a process that does not heed a Ctrl-C is killed.
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
#: names, be it beside these or in ``stores``, is a group of its own, and begins after all others.
GROUPS = (
    Group("core", ("core", "testing")),
    Group("faults", ("conformance", "faults", "servers")),
    Group("redis", ("stores/redis",)),
    Group("kit-servers", (KIT,), only=f"not ({HERE})"),
    Group("command", ("cli", "bench", "demo", "harness", "pages", "tidy", "typing")),
    Group("embedded", ("stores/sqlite",)),
    Group("several", ("stores/redis/several", "stores/redis/aio", "traps")),
    Group("fenced", ("fenced", "mutants")),
    Group("torture", ("torture", "sim", "stores/redis/test_torture.py")),
    Group("postgres", ("stores/postgres",)),
    Group("zookeeper", ("stores/zookeeper",)),
    Group("mysql", ("stores/mysql",)),
    Group("kit", (KIT,), only=HERE),
)
#: What a change is tested by first: no server, and two minutes with all checks. So it is without
#: the longest: those that try all cases of a class, and those that kill processes.
_LONG = "url_secrets or door_walk_kit or few_descriptors or neighbours or damage_rounds or death"
QUICK = (
    Group("embedded", ("stores/sqlite",), only=f"not ({_LONG})"),
    Group("core", ("core",), only=f"not ({_LONG})"),
    Group("queues", ("queues",)),
    Group("guard", ("guard", "testing")),
    Group("memory", (KIT,), only="[memory-"),
)


def tests() -> list[str]:
    """Every file of tests, as the groups name them."""
    return sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py"))


def groups() -> list[Group]:
    """All groups but the one that runs before them: those with names, then those without."""
    named = [ALONE, *GROUPS]
    unnamed = [file for file in tests() if not any(covers(one, file) for one in named)]
    return [*GROUPS, *(Group(place, (place,)) for place in sorted(set(map(_place, unnamed))))]


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
        """Show what it has said; pytest's exit code and the line in which it sums up."""
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - self._begun
        how = "passed" if code == 0 else f"FAILED ({code})"
        tell(f"{self.group.name} {how} in {took:.0f} s, {cpu:.0f} s of them at work")
        return code, last_line(self._show())

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
    """Run these, ``at_once`` at a time; the exit code and the sum of each."""
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


def last_line(said: str) -> str:
    """The line in which pytest sums up, whatever a thread has said after it.

    >>> last_line("1 failed\\n== 3 passed in 2.00s ==\\nConnection dropped\\n")
    '== 3 passed in 2.00s =='
    """
    found = re.findall(r"^.*\d+ [a-z]+.* in [\d.]+s\b.*$", said, re.MULTILINE)
    return found[-1] if found else ""


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
    everything = [*QUICK] if names == ("quick",) else [ALONE, *groups()]
    names = () if names == ("quick",) else names
    chosen = [one for one in everything if not names or one.name in names]
    if missing := set(names) - {one.name for one in chosen}:
        tell(
            f"no group {', '.join(sorted(missing))}; there are "
            + ", ".join(one.name for one in everything)
        )
        return 64
    done = run([one for one in chosen if one is ALONE], everything, 1)
    at_once = AT_ONCE if ALONE in everything else len(QUICK)
    done += run([one for one in chosen if one is not ALONE], everything, at_once)
    # Last, as pytest says it.
    print(summed((line for _, line in done), time.monotonic() - begun), flush=True)
    return max(abs(code) for code, _ in done)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main(*sys.argv[1:]))
