"""Seeded histories of the real core on a store model, judged by named invariants.

``check(seed)`` runs one; ``python -m holdfast.testing.simulator`` (``./dev sim``) runs many.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Generator

from .history import History, Plan, Verdict, make_plan
from .trouble import Violation

__all__ = ["History", "Plan", "Verdict", "Violation", "check", "make_plan", "run"]


def check(seed: int, telling: bool = False) -> Verdict:
    """Run the history of this seed; its verdict has a violation or None."""
    return run(make_plan(seed), telling)


def run(plan: Plan, telling: bool = False) -> Verdict:
    """Run a plan, for instance a shrunk one."""
    with unhurried():
        return History(plan, telling).run()


@contextlib.contextmanager
def unhurried() -> Generator[None]:
    """No garbage collection meanwhile: its moment would depend on what ran before, and a
    forgotten hold is noticed when it is collected. Every hundredth time it is caught up on."""
    global _runs
    _runs += 1
    if _runs % 100 == 0:
        gc.collect()
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


_runs = 0
