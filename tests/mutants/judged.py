"""What notices a bug made by rule: ``python -m tests.mutants.judged JUDGE MODULE NUMBER``.

``JUDGE`` is ``histories``, of the simulator, or ``tests``: those of the core, on memory. In a
process of its own, as a bug stays planted. It prints what has noticed the bug, or nothing. What
can't run at all, by an unknown name, proves nothing: a question mark stands before it then.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from .failure import NOTES, noted
from .operators import mutations
from .plant import Edit, plant
from .prove import Seen, tested

SOURCE = Path(__file__).parents[2] / "src"
TESTS = Path(__file__).parents[1]
#: Histories of each kind; the kind that a part of the core is about comes first.
HISTORIES = {"locks": 100, "queues": 100, "guards": 60}
#: The tests of a part of the core come before those of all of it.
OF = {"queue": "queues", "jobs": "queues", "guard": "guard", "values": "guard"}
KIT = "conformance/test_conformance.py"


def histories(part: str) -> str:
    """The invariant that is violated, and the seed."""
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
    """The test that fails, and how."""
    seen = Seen()
    places = [KIT, *([OF[part]] if part in OF else []), "core"]
    only = ["-k", "(not conforms or [memory-) and not sqlite"]
    code = tested([*only, *(str(TESTS / place) for place in places)], seen)
    said = f"{seen.node}: {seen.failure or code}"
    return said * (code != 10)


def main(judge: str, module: str, number: str) -> int:
    """Plant it, and have it judged."""
    source = SOURCE.joinpath(*module.split(".")).with_suffix(".py").read_bytes()
    plant([Edit(module, source.decode(), mutations(source)[int(number)].of(source))])
    part = next((one for one in OF if one in module), "locks")
    with tempfile.TemporaryDirectory(prefix="holdfast-notes-") as place:
        os.environ[NOTES] = f"{place}/notes"
        os.environ["HOLDFAST_TORTURE"] = ""
        found = {"histories": histories, "tests": tests}[judge](part)
        sys.stdout.write(f"\n{'?' * bool(noted() and found)}{found.lstrip('?')}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
