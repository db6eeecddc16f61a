"""All tests, in two processes at once, because most of their time they wait for something.

``python -m tests.both`` shows the first as it goes, and the second when both have ended. No plugin
hands the tests out one by one, because those of one folder share servers, and count threads.
Before both, a few tests have the machine to themselves: those that say how many milliseconds
something takes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parent
#: What goes into the second process: tests that sleep more than they work, and take half the time.
BESIDE = ("stores/redis", "traps")
#: What goes before both: tests that measure.
ALONE = ("stores/sqlite/test_death.py", "torture/test_death.py", "cli/test_start.py")
GRACE_S = 10.0


def commands() -> tuple[list[str], list[str], list[str]]:
    """What is run before, and by both: between them, every test once."""
    pytest = [sys.executable, "-m", "pytest"]
    alone = [str(TESTS / file) for file in ALONE]
    beside = [str(TESTS / folder) for folder in BESIDE]
    return (
        [*pytest, "-p", "no:cacheprovider", *alone],
        [*pytest, *(f"--ignore={path}" for path in [*alone, *beside])],
        [*pytest, "-p", "no:cacheprovider", *beside],
    )


def main() -> int:
    """Run all; 0 if all tests passed."""
    alone, first, second = commands()
    begun = time.monotonic()
    wrong = subprocess.call(alone)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        others = subprocess.Popen(second, stdout=said, stderr=subprocess.STDOUT)
        try:
            code = subprocess.call(first)
            sys.stderr.write(f"tests: waiting for those of {', '.join(BESIDE)}\n")
            code = others.wait() or code or wrong
        except BaseException:
            # Ctrl-C has reached both; who doesn't heed it is ended.
            try:
                others.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                others.kill()
            raise
        said.seek(0)
        sys.stdout.write(said.read())
        sys.stdout.flush()
    sys.stderr.write(f"tests: all in {time.monotonic() - begun:.0f} s\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
