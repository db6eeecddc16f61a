"""Serial queues in virtual time: seeded histories of the real core, judged by named promises."""

from __future__ import annotations

from .history import QUEUES, QueueHistory, make_plan

check, run = QUEUES.check, QUEUES.run

__all__ = ["QUEUES", "QueueHistory", "check", "make_plan", "run"]
