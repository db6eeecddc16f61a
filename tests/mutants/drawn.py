"""Bugs made by rule, drawn and judged: ``python -m tests.mutants.drawn [N] [SEED] [PART]``.

It prints each bug with its line and the test that noticed it. At the end it prints how many bugs
each judge noticed. ``PART`` is a part of a path below ``src``, such as ``core/queue``,
``redis/lua`` or ``postgres/schema``.
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
#: The folders that the simulator and the tests of the core judge: the core and the memory store.
CORE = ("holdfast/core", "holdfast/stores/memory")
#: Folders of scripts, and the store whose tests judge them.
SCRIPTS = {
    "holdfast/stores/redis/lua": "redis",
    "holdfast/stores/postgres/schema": "postgres",
    "holdfast/stores/mysql/schema": "mysql",
    "holdfast/stores/sqlite/schema": "sqlite",
}
#: Seconds after which a judge counts as hanging, for Python and for scripts.
HANGS_S = {True: 400.0, False: 900.0}
AT_ONCE = 3


def mutations(path: Path) -> list[Mutation]:
    """Return all changes of a module or a script."""
    source = path.read_bytes()
    if path.suffix == ".py":
        return operators.mutations(source)
    return statements.mutations(source, path.suffix)


class Drawn(NamedTuple):
    """A bug, and its file below ``src``."""

    path: str
    number: int
    mutation: Mutation

    def source(self) -> bytes:
        """Return the text of the file without the bug."""
        return SOURCE.joinpath(self.path).read_bytes()

    def judges(self) -> tuple[str, ...]:
        """Return the names of the judges that must notice the bug."""
        return ("histories", "tests") if self.path.endswith(".py") else ("scripts",)

    def __str__(self) -> str:
        return f"{self.path}:{self.mutation.line}: {self.mutation.what}"


def everything(part: str = "") -> list[Drawn]:
    """Return all bugs that the rules make in judged files; in scripts only if a part is named."""
    places = [*CORE, *(SCRIPTS if part else ())]
    found = []
    for path in sorted(path for place in places for path in (SOURCE / place).rglob("*.*")):
        inside = path.relative_to(SOURCE).as_posix()
        judged = path.suffix in (".py", *statements.RULES) and path.name != "__init__.py"
        if judged and part in inside:
            found += [Drawn(inside, number, one) for number, one in enumerate(mutations(path))]
    return found


def noticed(bug: Drawn) -> str:
    """Return the judge that notices the bug and its report; an empty text if none does."""
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
    """Return the report on each bug; ``tell`` is called with a line on each, in this order."""
    found: dict[Drawn, str] = {}
    with ThreadPoolExecutor(at_once) as pool:
        for bug, how in zip(bugs, pool.map(noticed, bugs), strict=True):
            found[bug] = how
            tell(f"{'ok  ' if how else 'LEFT'} {bug}" + f" -- {how[:160]}" * bool(how))
    return found


def main(count: str = "200", seed: str = "1", part: str = "") -> int:
    """Draw some bugs, and print how each was noticed."""
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
