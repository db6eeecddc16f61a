"""Torture for serial queues: processes that put and take and are struck, and a judgement.

``python -m holdfast.testing.queues --store URL`` starts processes of both faces that put jobs into
groups and work on them, and write down what they do. Meanwhile some are killed, or stopped for
longer than their leases. Afterwards the queue must be empty, and what they wrote down is judged
beside what the queue still has: nothing lost, the order of each group, one at a time, the
interval, nothing done again that was acked. The numbers come from a seed, which is printed.
"""

from __future__ import annotations

from .run import Options, Outcome, run

__all__ = ["Options", "Outcome", "run"]
