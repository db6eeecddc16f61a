"""Run the simulator with a bug planted until something notices: ``python -m tests.mutants.hunt N``.

Prints the invariant that was violated, or nothing. A process of its own, as a bug stays planted.
"""

from __future__ import annotations

import logging
import sys
import warnings

from .plant import plant
from .simulated import MUTANTS

#: A bug must be found within so many histories.
HISTORIES = 3000


def hunt(number: int) -> str:
    """The violation that the planted bug leads to, as ``name: story (seed n)``: of one of the
    invariants that it is made for, else of another, else nothing."""
    plant(MUTANTS[number].edits)
    from holdfast.testing.simulator import check

    logging.getLogger("holdfast").setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore")
    others = ""
    near = MUTANTS[number].near
    for seed in [*range(near, near + HISTORIES), *range(near)]:
        found = check(seed).violation
        if found is not None and found.invariant in MUTANTS[number].caught_by:
            return f"{found} (seed {seed})"
        if found is not None:
            others = others or f"{found} (seed {seed})"
    return others


if __name__ == "__main__":
    sys.stdout.write(hunt(int(sys.argv[1])) + "\n")
