"""Run the simulator with a bug planted until something notices: ``python -m tests.mutants.hunt N``.

Prints how the history failed and, in a second line, its seed, or nothing. A process of its own, as
a bug stays planted. What is found first need not be the failure that the bug was planted for: the
hunt goes on until it is one of those that are recorded.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import warnings

from .failure import NOTES, Failure, normalised, noted, recorded, recording
from .plant import plant
from .simulated import MUTANTS

TABLE = "simulated"
#: A bug must be found within so many histories.
HISTORIES = 3000


def hunt(number: int) -> tuple[str, str]:
    """The failure that the planted bug leads to, and the seed of its history: one of those that
    are recorded, or of the invariants that it is made for; else another, else nothing."""
    bug = MUTANTS[number]
    plant(bug.edits)
    from holdfast.testing.simulator import check

    logging.getLogger("holdfast").setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore")
    known = [] if recording() else recorded(TABLE, bug.name)
    others = "", ""
    for seed in [*range(bug.near, bug.near + HISTORIES), *range(bug.near)]:
        found = check(seed).violation
        if found is None:
            continue
        told = Failure(found.invariant, story(str(found).partition(": ")[2]))
        if found.invariant in bug.caught_by and (not known or str(told) in known):
            return str(told), f"seed {seed}"
        others = others if others[0] else (str(told), f"seed {seed}")
    return others


def story(text: str) -> str:
    """What was violated, without who it was."""
    return re.sub(r"\[.*\]|'[^']*'", "X", normalised(text))


def told(number: int) -> tuple[str, str, str]:
    """What ``hunt`` says, and what says that the planted code can't run."""
    with tempfile.TemporaryDirectory(prefix="holdfast-notes-") as place:
        os.environ[NOTES] = f"{place}/notes"
        return *hunt(number), noted()


if __name__ == "__main__":
    sys.stdout.write("\n".join(told(int(sys.argv[1]))) + "\n")
