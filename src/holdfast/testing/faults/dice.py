"""Random numbers that can be repeated: every source prints its seed."""

from __future__ import annotations

import os
import random

#: Set this to the number that a failed run printed, to draw the same numbers again.
ENV = "HOLDFAST_SEED"


def dice(what: str, seed: int | None = None) -> random.Random:
    """Random numbers for one purpose; prints the seed, and the way to use it again.

    ``seed`` None: ``$HOLDFAST_SEED`` if it is set, else a new one. Sources with different
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
