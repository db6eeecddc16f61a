"""Hundreds or thousands of waiters in one line, granted in order, with fast hand-offs."""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from itertools import pairwise

from holdfast import Client
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Subject
from tests.torture.scale import times

PROCESSES = 4
CROWD = times(5000, 600)
#: Maximum median of one hand-off in this line, in seconds, on a machine with two cores.
HANDOFF_S = 0.010
#: Seconds: a waiter that the machine delays for longer can lose its place.
ASK_S = 2.0
lag.watch()


def test_a_crowd_in_one_line_is_served_in_order(url: str) -> None:
    each = CROWD // PROCESSES
    with Client(url) as client, ExitStack() as stack:
        hold = client.lock("x").acquire()
        begun, crowds = time.monotonic(), "tests.torture.acts:crowds"
        crowd = [
            stack.enter_context(Subject(crowds, url, each, f"crowd-{number}"))
            for number in range(PROCESSES)
        ]
        for subject in crowd:
            assert subject.hear() == "asked"
        while len(waiters := client.inspect("x", exact=True)[0].waiters) < CROWD:
            assert time.monotonic() < begun + 120, f"{len(waiters)} wait after 120 s"
            time.sleep(0.1)
        tickets = [waiter.fence for waiter in waiters]
        let_go = boottime()
        hold.release()
        served, late = [], 0.0
        for subject in crowd:
            for _ in range(0, each, 100):
                served += subject.hear(180)
            late = max(late, subject.hear(180))
    served.sort(key=lambda one: one[2])
    fences = [fence for _, fence, _, _ in served]
    assert len(fences) == CROWD
    assert not [pair for pair in pairwise(fences) if pair[0] >= pair[1]]
    gaps = [after[2] - before[2] for before, after in pairwise(served)]
    assert statistics.median(gaps) < HANDOFF_S
    # If all waiters could ask in time: a waiter that asked once has kept its place, and no wake-up
    # was lost
    late = max(late, lag.since(let_go))
    if late < ASK_S:
        assert not {fence for _, fence, _, asked in served if asked == 1} - {*tickets}
        assert max(gaps) < 1.0 + late
