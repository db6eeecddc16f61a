"""Run all checks: ``python -m tests.checks``. Two run at a time, because each one uses a full core.

``without-tidy`` leaves out the tests in ``tests/tidy``, because a run of all tests includes them.
``without-pyright-*`` leaves out each check whose name matches the pattern.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from tests.fetching.cache import CACHE

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
BIN = Path(PYTHON).parent
#: Maximum checks at a time. More of them only compete for the caches of the processor.
AT_ONCE = max(2, os.cpu_count() or 2)
#: The cache of mypy, keyed by file contents: in a fresh clone mypy checks only changed files.
KNOWN = CACHE / f"mypy-{version('mypy')}"
#: The longest checks come first, so that short checks end the run.
CHECKS = {
    "pyright": [PYTHON, "-m", "pyright", "--pythonpath", PYTHON],
    "mypy": [PYTHON, "-m", "mypy", "--cache-dir", str(KNOWN / "here")],
    "pyright-changed": [PYTHON, "-m", "tests.platforms.pyright", "changed"],
    **{
        f"pyright-{platform}": [PYTHON, "-m", "tests.platforms.pyright", platform]
        for platform in ("Windows", "Darwin")
    },
    **{
        f"mypy-{platform}": [
            *(PYTHON, "-m", "mypy", "--platform", platform),
            *("--config-file", "tests/platforms/mypy.ini"),
            *("--cache-dir", str(KNOWN / platform)),
        ]
        for platform in ("win32", "darwin")
    },
    "tidy": [PYTHON, "-m", "pytest", "-q", "tests/tidy"],
    "ruff": [str(BIN / "ruff"), "check", "--output-format", "concise"],
    "format": [str(BIN / "ruff"), "format", "--check", "--output-format", "concise"],
    "arrows": [str(BIN / "lint-imports"), "--no-logo"],
}


#: The running checks.
running: set[subprocess.Popen[str]] = set()


class Checked(NamedTuple):
    """The result of a check."""

    name: str
    code: int
    said: str
    seconds: float


def check(name: str) -> Checked:
    """Run the check of this name."""
    begun = time.monotonic()
    with subprocess.Popen(
        CHECKS[name], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        running.add(process)
        said, _ = process.communicate()
        running.discard(process)
    return Checked(name, process.returncode, said, time.monotonic() - begun)


def tell(what: str) -> None:
    """Print a line of progress."""
    print(f"dev: {what}", file=sys.stderr, flush=True)


def main(*left_out: str) -> int:
    """Run all checks except those with these names; return 0 if each check passed."""
    begun = time.monotonic()
    tell("checking")
    failed = []
    chosen = [name for name in CHECKS if not any(fnmatch(name, like) for like in left_out)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        all_checks = [pool.submit(check, name) for name in chosen]
        try:
            for ended in as_completed(all_checks):
                name, code, said, seconds = ended.result()
                tell(f"  {'ok     ' if code == 0 else 'FAILED '} {name} ({seconds:.0f} s)")
                if code != 0:
                    failed.append(name)
                    print(said, flush=True)
        except (KeyboardInterrupt, SystemExit) as why:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in [*running]:
                process.terminate()
            tell("stopped")
            return 130 if isinstance(why, KeyboardInterrupt) else 143
    if failed:
        tell(f"failed: {', '.join(failed)}")
        return 1
    tell(f"all checks passed in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(main(*(word.removeprefix("without-") for word in sys.argv[1:])))
