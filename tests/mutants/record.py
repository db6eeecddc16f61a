"""Record the failures that catch planted bugs: ``python -m tests.mutants.record [-k NAME]``.

Without ``-k`` it proves the bugs that have no record. With ``-k`` it proves the bugs whose name
contains this text, and replaces their records. ``--add`` keeps the recorded failures as well: the
test of a bug can fail in several ways.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from .failure import MODE, PART, ROOT

#: The tests that prove planted bugs, quick ones first.
TABLES = (
    "tests/mutants/test_mutants.py::test_planted_bug_is_caught",
    "tests/conformance/test_kit.py::test_a_planted_fault_is_found",
    "tests/conformance/test_differential.py::test_a_planted_fault_is_found",
    "tests/fenced/test_power.py::test_a_planted_bug_is_found",
    "tests/torture/test_queues.py::test_a_planted_bug_is_found_out",
    "tests/mutants/test_planted.py::test_the_bug_is_caught",
    "tests/interop/test_planted.py::test_the_bug_is_caught",
)


def main(argv: list[str] | None = None) -> int:
    """Prove the bugs and record their failures; return the exit code of pytest."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.record")
    parser.add_argument("-k", dest="name", default="", metavar="NAME", help="a part of a name")
    parser.add_argument("--add", action="store_true", help="keep what is recorded")
    parser.add_argument("tests", nargs="*", default=TABLES, help="only these tables")
    args = parser.parse_args(argv)
    mode = "add" if args.add else "again" if args.name else "missing"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args.tests]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, MODE: mode, PART: args.name}
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
