"""Plant a bug and run the simulator until it fails: ``python -m tests.mutants.hunt N``.

It prints three lines: how the history failed, the seed of the history, and a sign that the planted
code can't run. A line can be empty. It needs a separate process, as a planted bug stays planted.
The first failure need not be the failure that the bug was planted for. So the hunt continues until
it finds a recorded failure.
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
#: Number of histories in which a bug must be found.
HISTORIES = 3000


def hunt(number: int) -> tuple[str, str]:
    """Return the failure that the planted bug causes, and the seed of its history.

    Prefer a recorded failure of an invariant that the bug is made for; without a record, any
    failure of such an invariant. Otherwise return the first failure, or two empty texts.
    """
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
    """Return the violation without the names of claims and processes."""
    return re.sub(r"\[.*\]|'[^']*'", "X", normalised(text))


def told(number: int) -> tuple[str, str, str]:
    """Return the result of ``hunt``, and a sign that the planted code can't run."""
    with tempfile.TemporaryDirectory(prefix="holdfast-notes-") as place:
        os.environ[NOTES] = f"{place}/notes"
        return *hunt(number), noted()


if __name__ == "__main__":
    sys.stdout.write("\n".join(told(int(sys.argv[1]))) + "\n")
