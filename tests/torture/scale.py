"""How often something is tried: a part of it in every run, all with ``HOLDFAST_TORTURE=full``.

With a number in place of ``full``, as ``./dev test full`` has it, it is tried that many times as
often as usual, but no more often than ``full`` tries it; and every case is played.
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
#: How many times as often as usual something is tried.
MORE = math.inf if _SAID == "full" else int(_SAID or 1)
FULL, ALL = MORE > 1, _SAID == "full"
#: What a short run doesn't judge: one in a thousand may come back late, which is nobody there.
IGNORED = () if FULL else ("bounded waiting",)
#: What this run tries a part of, and how large a part, in words that are said at its end.
LEFT_OUT: dict[str, str] = {}


def times(full: int, usual: int) -> int:
    """The number of attempts in this run."""
    return int(min(full, max(usual, 1) * MORE)) if FULL else usual


def part(values: Iterable[T], usual: int) -> list[T]:
    """Of these values so many, spread evenly; all with ``HOLDFAST_TORTURE=full``."""
    every = [*values]
    return every if FULL else spread(every, usual)


def spread(every: Sequence[T], most: int) -> list[T]:
    """Of these so many, as far apart as they can be."""
    number = min(most, len(every))
    return [every[nth * len(every) // number] for nth in range(number)]


def seed_of(what: str) -> int:
    """The seed of a test that draws which of very many cases it plays; it is printed.

    A usual run plays the same ones each time, so that a build doesn't fail by what it never saw
    before. With ``HOLDFAST_TORTURE=full`` they are others each time, and ``HOLDFAST_SEED`` chooses.
    """
    chosen = os.environ.get("HOLDFAST_SEED", "")
    seed = int(chosen) if chosen else random.SystemRandom().randrange(1 << 32) if FULL else 1
    print(f"{what}: seed {seed} (again: HOLDFAST_SEED={seed})", flush=True)
    return seed


def figures(what: str, seconds: Sequence[float]) -> str:
    """Times in words, in milliseconds: the middle, and the worst."""
    ordered = sorted(seconds)
    middle, worst = statistics.median(ordered), ordered[-1]
    return f"{what}: {len(ordered)} times, median {middle * 1e3:.2f} ms, worst {worst * 1e3:.2f} ms"
