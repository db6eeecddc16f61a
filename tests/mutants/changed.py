"""Select the planted bugs that a change is about: it touches their code, test or record.

All proofs take a quarter of an hour on two cores. So a usual run proves only the selected bugs, up
to a limit.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from holdfast.testing.conformance import all_cases
from tests import change
from tests.tidy.tree import ROOT
from tests.torture.scale import FULL, LEFT_OUT, spread

from .bugs import Planted
from .failure import chosen, file, recording
from .table import Mutant

#: The simulator, which catches the bugs that name invariants instead of a test.
SIMULATOR = ROOT / "src/holdfast/testing/simulator"


def proven(
    table: str, names: Collection[str], near: Mapping[str, Collection[Path]], most: int
) -> list[str]:
    """Return the names of the bugs to prove in this run: all with ``HOLDFAST_TORTURE=full``.

    Otherwise return the bugs that the change is about: it touches a file that is ``near`` the bug.
    They are at most ``most``, spread evenly over the table. A bug without a near file is left out.
    """
    if FULL or recording():
        return chosen(table, names, names)
    files = change.files()
    mine = [
        name for name, paths in near.items() if files is None or files & {file(table, name), *paths}
    ]
    some = spread(mine, most)
    LEFT_OUT[table] = (
        f"{len(some)} of {len(names)} planted bugs are proven: "
        + ("the changes are unknown" if files is None else f"{len(mine)} are near a change")
        + "; `./dev test full` proves all"
    )
    return some


def places(bug: Planted | Mutant) -> set[Path]:
    """Return the files that a bug is planted in, and the files of its test or of the simulator."""
    if isinstance(bug, Mutant):
        found = {*SIMULATOR.rglob("*.py")}
    else:
        found = {ROOT / bug.node.partition("::")[0]}
        found |= {*filter(None, [_cases().get(bug.node.rpartition("-")[2].rstrip("]"))])}
    for edit in bug.edits:
        module, olds = edit.module.split("."), [*replaced(edit.new)]
        room = (ROOT / "src").joinpath(*module[:3])
        scripts = {
            path
            for path, text in _scripts().items()
            if path.is_relative_to(room) and any(old in text for old in olds)
        }
        found |= scripts or {(ROOT / "src").joinpath(*module).with_suffix(".py")}
    return found


def replaced(code: str) -> Iterator[str]:
    """Yield the texts of a script that this code replaces."""
    try:
        tree = ast.parse(inspect.cleandoc(code))
    except SyntaxError:  # a part of a statement
        return
    for one in ast.walk(tree):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
            old = one.args[0] if one.func.attr == "replace" and len(one.args) == 2 else None
            if isinstance(old, ast.Constant):
                yield old.value.decode() if isinstance(old.value, bytes) else str(old.value)


@functools.cache
def _scripts() -> dict[Path, str]:
    files = [one for end in ("sql", "lua") for one in (ROOT / "src").rglob(f"*.{end}")]
    return {one: one.read_text("utf-8") for one in files}


@functools.cache
def _cases() -> dict[str, Path]:
    """Return the file of each case of the kit, by its name."""
    return {one.name: Path(one.text.__code__.co_filename) for one in all_cases()}
