"""Histories: workers record their use of locks, queues and guards, and rules judge the records.

A worker writes events with a :class:`Recorder`; :func:`judge` reads the events of all workers and
reports broken promises. Use this in tests with real processes, on any store::

    recorder = Recorder(folder / "worker-1.jsonl", "worker-1")
    claim = recorder.ask("invoice:42", timeout=5)
    if hold := client.lock("invoice:42").acquire(timeout=5):
        recorder.held(claim, hold)
        ...
        recorder.leaving(claim)
        recorder.left(claim, hold.release())
    else:
        recorder.busy(claim)

    verdict = judge_files(*folder.glob("*.jsonl"))
    verdict.demand()

``python -m holdfast.testing judge FILE...`` judges the histories in files.
"""

from __future__ import annotations

from .judge import Verdict, judge, judge_files
from .reader import BadHistory
from .recorder import Recorder
from .story import story, tell
from .terms import GRACE_S, LATE_PART, Violation

__all__ = [
    "GRACE_S",
    "LATE_PART",
    "BadHistory",
    "Recorder",
    "Verdict",
    "Violation",
    "judge",
    "judge_files",
    "story",
    "tell",
]
