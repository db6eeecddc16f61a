"""Judge a bug made by rule: ``python -m tests.mutants.judged JUDGE PATH NUMBER``.

``JUDGE`` is ``histories``, ``tests`` or ``scripts``. ``histories`` runs the simulator. ``tests``
runs the tests of the core on the memory store. ``scripts`` runs the kit, the comparison with the
model and the tests of the store to which the script belongs. It needs a separate process, as a
planted bug stays planted. It prints the failure that shows the bug, or an empty line. Code that
can't run because of an unknown name proves nothing. Then the line begins with a question mark.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .drawn import SCRIPTS, mutations
from .failure import NOTES, noted
from .plant import Edit, plant
from .prove import Seen, tested

SOURCE = Path(__file__).parents[2] / "src"
TESTS = Path(__file__).parents[1]
#: Number of histories of each kind. The kind that belongs to the changed part runs first.
HISTORIES = {"locks": 100, "queues": 100, "guards": 60}
#: The parts of the core whose tests run before all tests of the core, and their test folder.
OF = {"queue": "queues", "jobs": "queues", "guard": "guard", "values": "guard"}
KIT = "conformance/test_conformance.py"


def histories(part: str) -> str:
    """Return the kind and seed of the first failing history and its invariant, or an empty text."""
    from holdfast.testing.simulator import KINDS
    from holdfast.testing.simulator.running import quiet

    quiet()
    for kind in sorted(KINDS, key=lambda kind: (not kind.startswith(OF.get(part, part)), kind)):
        for seed in range(HISTORIES[kind]):
            try:
                found = KINDS[kind].check(seed).violation
            except Exception as wrong:
                return f"{kind} {seed}: {type(wrong).__name__}: {wrong}"
            if found is not None:
                return f"{kind} {seed}: {found.invariant}"
    return ""


def tests(part: str) -> str:
    """Return the first failing test of the core and its failure, or an empty text."""
    seen = Seen()
    places = [KIT, *([OF[part]] if part in OF else []), "core"]
    only = ["-k", "(not conforms or [memory-) and not sqlite"]
    code = tested([*only, *(str(TESTS / place) for place in places)], seen)
    said = f"{seen.node}: {seen.failure or code}"
    return said * (code != 10)


def scripts(store: str) -> str:
    """Return the first failing test of this store and its failure, or an empty text."""
    seen = Seen()
    places = ["conformance/test_differential.py", KIT, f"stores/{store}"]
    only = ["-k", f"{store} and not several", "--deselect", "tests/stores/redis/several"]
    code = tested([*only, *(str(TESTS / place) for place in places)], seen)
    return f"{seen.node}: {seen.failure or code}" * (code != 10)


def _copied(place: Path, path: str, changed: str) -> None:
    """Import holdfast, here and in child processes, from a copy with this script."""
    copy = place / "src"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / path).write_text(changed, "utf-8")
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)


JUDGES: dict[str, Callable[[str], str]] = {
    "histories": histories,
    "tests": tests,
    "scripts": scripts,
}


def main(judge: str, path: str, number: str) -> int:
    """Plant the bug and print the report of the judge."""
    changed = mutations(SOURCE / path)[int(number)].of((SOURCE / path).read_bytes())
    part = next((one for one in OF if one in path), "locks")
    with tempfile.TemporaryDirectory(prefix="holdfast-notes-") as place:
        if path.endswith(".py"):
            module = ".".join(Path(path).with_suffix("").parts)
            plant([Edit(module, (SOURCE / path).read_text("utf-8"), changed)])
        else:
            part = next(store for at, store in SCRIPTS.items() if path.startswith(at))
            _copied(Path(place), path, changed)
        os.environ[NOTES] = f"{place}/notes"
        os.environ["HOLDFAST_TORTURE"] = ""
        found = JUDGES[judge](part)
        sys.stdout.write(f"\n{'?' * bool(noted() and found)}{found.lstrip('?')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
