"""Histories: what workers wrote down of their locks, and the judgement over it.

A worker writes events with a :class:`Recorder`; :func:`judge` reads what all of them wrote and says
which promises were broken, if any. It serves tests with real processes, against any store::

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

``python -m holdfast.testing.histories FILE...`` does the same for files.
"""

from __future__ import annotations

import contextlib
import os

from .judge import GRACE_S, LATE_PART, Verdict, Violation, judge
from .reader import BadHistory
from .recorder import Recorder
from .story import story, tell

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


def judge_files(*paths: str | os.PathLike[str], grace: float = GRACE_S) -> Verdict:
    """Judge the histories in these files, one per worker; see :func:`judge`."""
    with contextlib.ExitStack() as stack:
        return judge(*(stack.enter_context(open(path, "rb")) for path in paths), grace=grace)
