"""Random numbers that a later run can repeat: every source prints its seed."""

from __future__ import annotations

import os
import random

#: Set this to the number that a failed run printed, to draw the same numbers again.
ENV = "HOLDFAST_SEED"


def dice(what: str, seed: int | None = None) -> random.Random:
    """Return a source of random numbers for the purpose ``what``, and print its seed.

    ``seed`` None: use ``$HOLDFAST_SEED`` if it is set, else a new seed. Sources with different
    purposes draw different numbers from one seed.

    >>> dice("example", 7).random() == dice("example", 7).random()
    example: seed 7 (again: HOLDFAST_SEED=7)
    example: seed 7 (again: HOLDFAST_SEED=7)
    True
    """
    if seed is None:
        seed = int(os.environ.get(ENV) or random.SystemRandom().randrange(1 << 32))
    print(f"{what}: seed {seed} (again: {ENV}={seed})", flush=True)
    return random.Random(f"{what} {seed}")
