"""Ctrl-C during a wake-up: a waiter is still woken, by the next verb at the latest."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

from holdfast.core.queue.model import Job, Pace, Patience, Put, Take
from holdfast.runtime.blocking import run_sync
from holdfast.stores.sqlite.blocking.queues.port import ThreadJobs
from holdfast.testing.faults import Strike
from holdfast.url import find

WITHIN_S = 5.0


def take(number: int, wait: bool = True) -> Take:
    return Take("q", f"take-{number}", 1, 60.0, "me", Pace(), Patience(), wait)


def test_a_waiter_is_woken_although_its_wake_up_is_interrupted(tmp_path: Path) -> None:
    ours, theirs = (ThreadJobs(find(f"sqlite://{tmp_path}/locks.db?sync=none")[1]) for _ in "12")
    ours.engine.put(Put("q", "lane", 1, (Job("one", "", b"1"),), 0.0), WITHIN_S)
    for number in itertools.count(1):
        # Given a waiter for a job that another worker has taken
        given, waits = take(2 * number), take(2 * number + 1)
        assert ours.engine.take(given, WITHIN_S).deliveries
        assert theirs.engine.take(waits, WITHIN_S).deliveries == ()
        # When the job is released, and the release is interrupted
        strike = Strike(number, within=("holdfast.stores.sqlite",))
        with contextlib.suppress(KeyboardInterrupt), strike:
            ours.engine.give_back(given, WITHIN_S)
        # Then the job isn't released, or this verb or the next one has woken the waiter
        (record,) = ours.engine.survey("q", True, WITHIN_S)
        assert not record.waiting or run_sync(theirs.sleep(waits.id, 2.0)), strike.where
        theirs.unlisten(waits.id)
        ours.engine.give_back(given, WITHIN_S)
        if not strike.where:
            break
    assert number > 20
    ours.close()
    theirs.close()
