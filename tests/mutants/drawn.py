"""Bugs made by rule, drawn and judged: ``python -m tests.mutants.drawn [N] [SEED] [PART]``.

It prints each bug with its line and the test that noticed it. At the end it prints how many bugs
each judge noticed. ``PART`` is a part of a path below ``src``, such as ``core/queue``,
``redis/lua`` or ``postgres/schema``.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from holdfast.testing.surroundings import surroundings

from . import operators, statements
from .executed import CORE, ROOT, SOURCE, USUAL
from .operators import Mutation

#: Folders of scripts, and the store whose tests judge them.
SCRIPTS = {
    "holdfast/stores/redis/lua": "redis",
    "holdfast/stores/postgres/schema": "postgres",
    "holdfast/stores/mysql/schema": "mysql",
    "holdfast/stores/sqlite/schema": "sqlite",
}
#: Seconds after which the judge of a script counts as hanging.
HANGS_S = 900.0
#: Scripts that are judged at the same time, each with its servers.
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


def judged_all(bugs: Sequence[Drawn], tell: Callable[[str], object] = print) -> dict[Drawn, str]:
    """Return the report on each bug, empty if nothing notices it; ``tell`` gets a line on each."""
    found: dict[Drawn, str] = {}
    modules = [bug for bug in bugs if bug.path.endswith(".py")]
    scripts = [bug for bug in bugs if bug not in modules]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        others = zip(scripts, pool.map(_script, scripts), strict=True)
        for bug, how in chain(_modules(modules), others):
            found[bug] = how
            tell(f"{'ok  ' if how else 'LEFT'} {bug}" + f" -- {how[:160]}" * bool(how))
    return found


def _judge(name: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", f"tests.mutants.{name}", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=surroundings(**USUAL),
    )


def _modules(bugs: Sequence[Drawn]) -> Iterator[tuple[Drawn, str]]:
    """Yield each bug in Python and the report on it, as it comes."""
    by = {(bug.path, bug.number): bug for bug in bugs}
    with _judge("judged") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        json.dump([*by], process.stdin)
        process.stdin.close()
        for line in process.stdout:
            path, number, how = json.loads(line)
            yield by.pop((path, number)), how
    assert not by, f"no report on {len(by)} bugs: exit {process.returncode}"


def _script(bug: Drawn) -> str:
    """Return the report on a bug in a script."""
    with _judge("scripted", bug.path, str(bug.number)) as process:
        try:
            said, _ = process.communicate(timeout=HANGS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return "it hangs"
    return said.rpartition("\n")[0].rpartition("\n")[2] or f"exit {process.returncode}" * bool(
        process.returncode
    )


def main(count: str = "200", seed: str = "1", part: str = "") -> int:
    """Draw some bugs, and print how each was noticed."""
    bugs = random.Random(int(seed)).sample(everything(part), int(count))
    found = judged_all(bugs, partial(print, flush=True))
    by = Counter(judge(how) for how in found.values())
    print(f"{count} drawn by seed {seed}: " + ", ".join(f"{by[one]} {one}" for one in sorted(by)))
    return 0


def judge(how: str) -> str:
    """Return the judge that has noticed a bug, by the report on it."""
    if how.startswith("?"):
        return "what can't run"
    folder = how.partition("/")[2].partition("/")[0] if how else "nothing"
    return {"mutants": "histories", "conformance": "kit"}.get(folder, folder)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
