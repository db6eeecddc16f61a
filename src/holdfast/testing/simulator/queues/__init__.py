"""Serial queues in virtual time: seeded histories of the real core, judged by named promises.

``check(seed)`` runs one; ``python -m holdfast.testing.simulator.queues`` (``./dev sim --queues``)
runs many.
"""

from __future__ import annotations

from .. import unhurried
from ..running import Plan, Verdict
from .history import QueueHistory, make_plan

__all__ = ["Plan", "QueueHistory", "Verdict", "check", "make_plan", "run"]


def check(seed: int, telling: bool = False) -> Verdict:
    """Run the history of this seed; its verdict has a violation or None."""
    return run(make_plan(seed), telling)


def run(plan: Plan, telling: bool = False) -> Verdict:
    """Run a plan, for instance a shrunk one."""
    with unhurried():
        return QueueHistory(plan, telling).run()
