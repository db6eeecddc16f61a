"""Bugs made by rule, drawn and judged: ``python -m tests.mutants.drawn [N] [SEED] [PART]``.

It tells each survivor with its line, and at last how many were noticed by what. ``PART`` is a part
of a path below ``src``, such as ``core/queue``, ``redis/lua`` or ``postgres/schema``.
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

from . import operators, statements
from .operators import Mutation

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
#: What the simulator and the tests of the core judge: the core, and the store that means each verb.
CORE = ("holdfast/core", "holdfast/stores/memory")
#: Scripts, and the store that runs them: its kit, the comparison with the model, and its own tests.
SCRIPTS = {
    "holdfast/stores/redis/lua": "redis",
    "holdfast/stores/postgres/schema": "postgres",
    "holdfast/stores/mysql/schema": "mysql",
    "holdfast/stores/sqlite/schema": "sqlite",
}
#: Seconds until a judge has noticed that it hangs.
HANGS_S = {True: 400.0, False: 900.0}
AT_ONCE = 3


def mutations(path: Path) -> list[Mutation]:
    """All changes of a module or a script."""
    source = path.read_bytes()
    if path.suffix == ".py":
        return operators.mutations(source)
    return statements.mutations(source, path.suffix)


class Drawn(NamedTuple):
    """A bug, and where it is: below ``src``."""

    path: str
    number: int
    mutation: Mutation

    def source(self) -> bytes:
        """The file without it."""
        return SOURCE.joinpath(self.path).read_bytes()

    def judges(self) -> tuple[str, ...]:
        """What must notice it."""
        return ("histories", "tests") if self.path.endswith(".py") else ("scripts",)

    def __str__(self) -> str:
        return f"{self.path}:{self.mutation.line}: {self.mutation.what}"


def everything(part: str = "") -> list[Drawn]:
    """All bugs that the rules make in what is judged; of scripts only where a part is named."""
    places = [*CORE, *(SCRIPTS if part else ())]
    found = []
    for path in sorted(path for place in places for path in (SOURCE / place).rglob("*.*")):
        inside = path.relative_to(SOURCE).as_posix()
        judged = path.suffix in (".py", *statements.RULES) and path.name != "__init__.py"
        if judged and part in inside:
            found += [Drawn(inside, number, one) for number, one in enumerate(mutations(path))]
    return found


def noticed(bug: Drawn) -> str:
    """What notices it, and how; nothing if nobody does."""
    for judge in bug.judges():
        words = [sys.executable, "-m", "tests.mutants.judged", judge, bug.path, str(bug.number)]
        try:
            done = subprocess.run(
                words,
                capture_output=True,
                text=True,
                timeout=HANGS_S[bug.path.endswith(".py")],
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
