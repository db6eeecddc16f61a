"""Refresh guards in virtual time: seeded histories of the real core, judged by one rule."""

from __future__ import annotations

from .history import GUARDS, GuardHistory, make_plan

check, run = GUARDS.check, GUARDS.run

__all__ = ["GUARDS", "GuardHistory", "check", "make_plan", "run"]
