"""Judge a bug made by rule in a script: ``python -m tests.mutants.scripted PATH NUMBER``.

The judges are the kit, the comparison with the model and the tests of the store to which the script
belongs. They run on a copy of the source, here and in child processes. The command prints the
failure that shows the bug, or an empty line.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from .drawn import SCRIPTS, mutations
from .executed import SOURCE
from .prove import Seen, tested

TESTS = Path(__file__).parents[1]
JUDGES = ("conformance/test_differential.py", "conformance/test_conformance.py")


def judged(store: str) -> str:
    """Return the first failing test of this store and its failure, or an empty text."""
    seen = Seen()
    # A fingerprint differs after any change, so it shows nothing about the other tests.
    names = f"{store} and not (several or fingerprint)"
    only = ["-k", names, "--deselect", "tests/stores/redis/several"]
    places = [str(TESTS / place) for place in (*JUDGES, f"stores/{store}")]
    code = tested([*only, *places], seen)
    return f"{seen.node}: {seen.failure or code}" * (code != 10)


def main(path: str, number: str) -> int:
    """Plant the bug and print the report of the judges."""
    changed = mutations(SOURCE / path)[int(number)].of((SOURCE / path).read_bytes())
    os.environ["HOLDFAST_TORTURE"] = ""
    with tempfile.TemporaryDirectory(prefix="holdfast-notes-") as place:
        copy = Path(place) / "src"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / path).write_text(changed, "utf-8")
        sys.path.insert(0, str(copy))
        os.environ["PYTHONPATH"] = str(copy)
        found = judged(next(store for at, store in SCRIPTS.items() if path.startswith(at)))
        sys.stdout.write(f"\n{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
