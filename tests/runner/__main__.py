"""``python -m tests.runner``: run all tests, the groups with these names, or ``quick``."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from . import groups
from .groups import Group
from .process import run
from .verdicts import TRIES, Verdicts, tell, told_missing


def main(*names: str) -> int:
    """Run all, or the groups of these names; 0 if nothing is broken."""
    begun = time.monotonic()
    quick = names == ("quick",)
    everything = [*groups.QUICK] if quick else [groups.ALONE, *groups.groups()]
    names = () if quick else names
    chosen = [one for one in everything if not names or one.name in names]
    if missing := set(names) - {one.name for one in chosen}:
        tell(
            f"no group {', '.join(sorted(missing))}; there are "
            + ", ".join(one.name for one in everything)
        )
        return 64
    verdicts = Verdicts()
    run([one for one in chosen if one is groups.ALONE], everything, 1, verdicts)
    at_once = len(groups.QUICK) if quick else groups.AT_ONCE
    run([one for one in chosen if one is not groups.ALONE], everything, at_once, verdicts)
    for _ in range(TRIES):
        if again := verdicts.worth_another_try():
            tell(f"{len(again)} tests failed beside others; they are run again, alone")
            run([alone(again)], [], 1, verdicts, again)
    venv = groups.TESTS.parent / ".venv"
    verdicts.tell(venv / "unsteady.log")
    missing_code = told_missing(venv / "missing")
    # Last, as pytest says it.
    print(verdicts.summary(time.monotonic() - begun), flush=True)
    return verdicts.code or missing_code


def alone(tests: list[str]) -> Group:
    """A group of the files that these tests are in."""
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    return Group("again", tuple(str(Path(groups.TESTS.parent, file)) for file in files))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main(*sys.argv[1:]))
