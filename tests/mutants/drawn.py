"""Bugs made by rule, drawn and judged: ``python -m tests.mutants.drawn [N] [SEED] [PART]``.

It tells each survivor with its line, and at last how many were noticed by what.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from holdfast.testing.surroundings import surroundings

from .operators import Mutation, mutations

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
#: What the simulator and the tests of the core judge: the core, and the store that means each verb.
JUDGED = ("holdfast/core", "holdfast/stores/memory")
JUDGES = ("histories", "tests")
#: Seconds until a judge has noticed that it hangs.
HANGS_S = 400.0
AT_ONCE = 3


class Drawn(NamedTuple):
    """A bug, and where it is."""

    module: str
    number: int
    mutation: Mutation

    def source(self) -> bytes:
        """The module without it."""
        return SOURCE.joinpath(*self.module.split(".")).with_suffix(".py").read_bytes()

    def __str__(self) -> str:
        return f"{self.module}:{self.mutation.line}: {self.mutation.what}"


def everything(part: str = "") -> list[Drawn]:
    """All bugs that the rules make in what is judged."""
    found = []
    for path in sorted(path for place in JUDGED for path in (SOURCE / place).rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if part in module and path.name != "__init__.py":
            changes = enumerate(mutations(path.read_bytes()))
            found += [Drawn(module, number, one) for number, one in changes]
    return found


def noticed(bug: Drawn) -> str:
    """What notices it, and how; nothing if nobody does."""
    for judge in JUDGES:
        words = [sys.executable, "-m", "tests.mutants.judged", judge, bug.module, str(bug.number)]
        try:
            done = subprocess.run(
                words,
                capture_output=True,
                text=True,
                timeout=HANGS_S,
                cwd=ROOT,
                env=surroundings(PYTHONPATH=str(SOURCE)),
            )
        except subprocess.TimeoutExpired:
            return f"{judge}: it hangs"
        said = done.stdout.rpartition("\n")[0].rpartition("\n")[2]
        if done.returncode or said:
            return f"{judge}: {said or f'exit {done.returncode}: {done.stderr[-200:]}'}"
    return ""


def judged_all(
    bugs: Sequence[Drawn], at_once: int, tell: Callable[[str], object] = str
) -> dict[Drawn, str]:
    """What notices each; ``tell`` is called with a line about each, in this order."""
    found: dict[Drawn, str] = {}
    with ThreadPoolExecutor(at_once) as pool:
        for bug, how in zip(bugs, pool.map(noticed, bugs), strict=True):
            found[bug] = how
            tell(f"{'ok  ' if how else 'LEFT'} {bug}" + f" -- {how[:160]}" * bool(how))
    return found


def main(count: str = "200", seed: str = "1", part: str = "") -> int:
    """Draw some, and tell what came of each."""
    bugs = random.Random(int(seed)).sample(everything(part), int(count))
    found = judged_all(bugs, AT_ONCE, lambda line: print(line, flush=True))
    by = Counter(
        "what can't run" if ": ?" in how else how.partition(":")[0] or "nobody"
        for how in found.values()
    )
    print(f"{count} drawn by seed {seed}: " + ", ".join(f"{by[one]} {one}" for one in sorted(by)))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
