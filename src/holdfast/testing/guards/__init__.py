"""Refresh guards judged: seeded histories of the real core in virtual time, with faults.

``check(seed)`` runs one; ``python -m holdfast.testing.guards`` (``./dev sim --guards``) runs many.
"""

from __future__ import annotations

from .history import GuardHistory, Verdict, check

__all__ = ["GuardHistory", "Verdict", "check"]
