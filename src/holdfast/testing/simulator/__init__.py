"""The simulator: the real core runs on a model of a store; named invariants judge each history.

A seed determines everything that happens in a history.

``check(seed)`` runs one history of locks; ``python -m holdfast.testing sim`` (``./dev sim``) runs
many histories of locks, queues or guards.
"""

from __future__ import annotations

from .guards import GUARDS
from .history import LOCKS, History, make_plan
from .queues import QUEUES
from .running import Kind, Plan, Verdict
from .trouble import Violation

check, run = LOCKS.check, LOCKS.run
#: The kinds of histories, by the name of the contract.
KINDS = {kind.name: kind for kind in (LOCKS, QUEUES, GUARDS)}

__all__ = ["KINDS", "History", "Kind", "Plan", "Verdict", "Violation", "check", "make_plan", "run"]
