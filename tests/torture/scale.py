"""How often something is tried: a part of it in every run, all with ``HOLDFAST_TORTURE=full``."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence

FULL = os.environ.get("HOLDFAST_TORTURE") == "full"


def times(full: int, usual: int) -> int:
    """The number of attempts in this run."""
    return full if FULL else usual


def figures(what: str, seconds: Sequence[float]) -> str:
    """Times in words, in milliseconds: the middle, and the worst."""
    ordered = sorted(seconds)
    middle, worst = statistics.median(ordered), ordered[-1]
    return f"{what}: {len(ordered)} times, median {middle * 1e3:.2f} ms, worst {worst * 1e3:.2f} ms"
