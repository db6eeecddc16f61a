"""All tests, in two processes at once, because most of their time they wait for something.

``python -m tests.both`` shows the first as it goes, and the second when both have ended. No plugin
hands the tests out one by one, because those of one folder share servers, and count threads.
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
GRACE_S = 10.0


def commands() -> tuple[list[str], list[str]]:
    """What both processes run: between them, every test once."""
    pytest = [sys.executable, "-m", "pytest"]
    beside = [str(TESTS / folder) for folder in BESIDE]
    return (
        [*pytest, *(f"--ignore={folder}" for folder in beside)],
        [*pytest, "-p", "no:cacheprovider", *beside],
    )


def main() -> int:
    """Run both; 0 if all tests passed."""
    first, second = commands()
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        others = subprocess.Popen(second, stdout=said, stderr=subprocess.STDOUT)
        try:
            code = subprocess.call(first)
            sys.stderr.write(f"tests: waiting for those of {', '.join(BESIDE)}\n")
            code = others.wait() or code
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
