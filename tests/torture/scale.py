"""The number of attempts in tests: a part in a usual run, all with ``HOLDFAST_TORTURE=full``.

A number can replace ``full``, as in ``./dev test full``. It multiplies the usual number of
attempts, up to the number of ``full``; every case is played then.
"""

from __future__ import annotations

import math
import os
import random
import statistics
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

_SAID = os.environ.get("HOLDFAST_TORTURE", "")
#: Factor of this run for the usual number of attempts.
MORE = math.inf if _SAID == "full" else int(_SAID or 1)
FULL, ALL = MORE > 1, _SAID == "full"
#: Promises that a short run doesn't judge. One late try in a thousand is allowed, which is none in
#: a short run.
IGNORED = () if FULL else ("bounded waiting",)
#: Tests that this run plays only in part, with the size of the part as text; printed at its end.
LEFT_OUT: dict[str, str] = {}


def times(full: int, usual: int) -> int:
    """The number of attempts in this run."""
    return int(min(full, max(usual, 1) * MORE)) if FULL else usual


def part(values: Iterable[T], usual: int) -> list[T]:
    """Return ``usual`` of these values, spread evenly; all of them in a full run."""
    every = [*values]
    return every if FULL else spread(every, usual)


def spread(every: Sequence[T], most: int) -> list[T]:
    """Return at most ``most`` of these values, as far apart as possible."""
    number = min(most, len(every))
    return [every[nth * len(every) // number] for nth in range(number)]


def seed_of(what: str) -> int:
    """Return and print the seed of a test that draws some of very many cases.

    A usual run plays the same cases each time, so that a build doesn't fail in a case that it never
    played before. A full run plays others each time; ``HOLDFAST_SEED`` chooses them.
    """
    chosen = os.environ.get("HOLDFAST_SEED", "")
    seed = int(chosen) if chosen else random.SystemRandom().randrange(1 << 32) if FULL else 1
    print(f"{what}: seed {seed} (again: HOLDFAST_SEED={seed})", flush=True)
    return seed


def figures(what: str, seconds: Sequence[float]) -> str:
    """Return a text with the number, the median and the maximum of these times, in milliseconds."""
    ordered = sorted(seconds)
    middle, worst = statistics.median(ordered), ordered[-1]
    return f"{what}: {len(ordered)} times, median {middle * 1e3:.2f} ms, worst {worst * 1e3:.2f} ms"
