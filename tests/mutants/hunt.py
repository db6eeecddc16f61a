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


def hunt(number: int, first_seed: int = 0) -> str:
    """The violation that the planted bug leads to, as ``name: story (seed n)``, or nothing."""
    plant(MUTANTS[number].edits)
    from holdfast.testing.simulator import check

    logging.getLogger("holdfast").setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore")
    for seed in range(first_seed, first_seed + HISTORIES):
        found = check(seed).violation
        if found is not None:
            return f"{found} (seed {seed})"
    return ""


if __name__ == "__main__":
    sys.stdout.write(hunt(int(sys.argv[1])) + "\n")
