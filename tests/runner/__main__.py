"""``python -m tests.runner``: run all tests, or the groups with these names.

``quick`` instead of names: only tests that need no server. ``--checks`` before them: also run the
checks at the same time. ``full``: all cases of all tests, with more attempts, and then the quick
tests with every other Python of this machine.

``unsteady [minutes]``: all tests next to noise, for at least this time (30), and then a table of
the tests that needed another try.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from tests.fetching.told import told_missing

from . import groups, pythons
from .groups import Group
from .noise import may_be_real_time, noise
from .process import run
from .verdicts import TRIES, Verdicts, table, tell

#: Factor for the attempts of tests that try a part of their cases in a usual run.
MORE = "5"


def main(*names: str) -> int:
    """Run all groups, or the named ones; return 0 if nothing is broken."""
    if names[:1] == ("unsteady",):
        return unsteady(*names[1:])
    if names == ("full",):
        os.environ["HOLDFAST_TORTURE"] = os.environ.get("HOLDFAST_TORTURE") or MORE
        return max([main("--checks"), pythons.quick_with_others()])
    begun = time.monotonic()
    checked = names[:1] == ("--checks",)
    names = names[checked:]
    quick = names == ("quick",)
    everything = [*groups.QUICK] if quick else groups.groups()
    names = () if quick else names
    chosen = [one for one in everything if not names or one.name in names]
    if missing := set(names) - {one.name for one in chosen}:
        tell(
            f"no group {', '.join(sorted(missing))}; there are "
            + ", ".join(one.name for one in everything)
        )
        return 64
    verdicts = Verdicts()
    with checks(verdicts, quick=quick) if checked else contextlib.nullcontext():
        full = bool(os.environ.get("HOLDFAST_TORTURE"))
        at_once = groups.AT_ONCE_FULL if full else groups.AT_ONCE
        play(verdicts, chosen, everything, len(chosen) if quick else at_once)
    verdicts.tell(_venv() / "unsteady.log")
    missing_code = told_missing(_venv() / "missing")
    # As the last line, like that of pytest.
    print(verdicts.summary(time.monotonic() - begun), flush=True)
    return verdicts.code or missing_code


#: The checks that a run leaves out. A quick run leaves out those for other platforms. A usual run
#: keeps only mypy's check for Windows, as the others read the same types of the standard library.
#: It also leaves out checks that are a group of tests. In both, pyright checks changed files and
#: the code that users write; mypy checks everything.
LEFT_OUT = {
    "quick": ["*-win32", "*-darwin", "*-Windows", "*-Darwin", "pyright"],
    "usual": ["tidy", "pyright", "*-Windows", "*-Darwin", "mypy-darwin"],
    "full": ["tidy", "pyright-changed"],
}


@contextlib.contextmanager
def checks(verdicts: Verdicts, *, quick: bool) -> Generator[None]:
    """Run the checks at the same time as the body: they use a processor that tests leave idle.

    Their output is shown immediately: if a check fails, a reader need not wait for the tests.
    """
    full = bool(os.environ.get("HOLDFAST_TORTURE"))
    tier = "quick" if quick else "full" if full else "usual"
    command = [sys.executable, "-m", "tests.checks", *(f"without-{one}" for one in LEFT_OUT[tier])]
    with subprocess.Popen(command, stderr=subprocess.STDOUT) as process:
        try:
            yield
        except BaseException:
            process.terminate()
            raise
        if process.wait() != 0:
            verdicts.broken["checks"] = "some failed, see above"


def play(
    verdicts: Verdicts, chosen: Sequence[Group], everything: Sequence[Group], at_once: int
) -> None:
    """Run these groups, and then run the failed tests again, alone."""
    run(chosen, everything, at_once, verdicts)
    for _ in range(TRIES):
        if again := verdicts.worth_another_try():
            tell(f"{len(again)} tests failed next to others; they are run again, alone")
            run([alone(again)], [], 1, verdicts, again)


def alone(tests: list[str]) -> Group:
    """Return a group of the files that contain these tests."""
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    return Group("again", tuple(str(Path(groups.TESTS.parent, file)) for file in files))


def unsteady(minutes: str = "30", seed: str = "") -> int:
    """Run all tests next to noise, again and again for this time; return 0 if nothing broke."""
    end = time.monotonic() + 60 * float(minutes)
    number = int(seed) if seed else random.SystemRandom().randrange(1 << 32)
    stops = "real-time loops" if may_be_real_time() else "SIGSTOP of all tests"
    tell(f"noise: a busy process for each processor, stops by {stops}, seed {number}")
    everything = groups.groups()
    played: list[Verdicts] = []
    while not played or time.monotonic() < end:
        played.append(Verdicts())
        with noise(number + len(played)):
            play(played[-1], everything, everything, groups.AT_ONCE)
        played[-1].tell(_venv() / "unsteady.log")
        tell(f"round {len(played)}: {'green' if played[-1].code == 0 else 'RED'}")
    print(table(played), flush=True)
    return max(one.code for one in played)


def _venv() -> Path:
    return groups.TESTS.parent / ".venv"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main(*sys.argv[1:]))
