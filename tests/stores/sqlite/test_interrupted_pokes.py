"""Ctrl-C amid a poke: whoever waits is woken all the same, by the next verb at the latest."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from types import FrameType

from holdfast.core.queue.model import Job, Pace, Patience, Put, Take
from holdfast.runtime.blocking import run_sync
from holdfast.stores.sqlite.blocking.queues.port import ThreadJobs
from holdfast.url import find
from tests.strike import interrupted

WITHIN_S = 5.0
#: What sends the pokes, and is struck; with what it calls.
SENDS = {"_flush", "_unsent", "rouse", "_poke"}


def take(number: int, wait: bool = True) -> Take:
    return Take("q", f"take-{number}", 1, 60.0, "me", Pace(), Patience(), wait)


def pokes(frame: FrameType) -> bool:
    callers = frame.f_code.co_name, frame.f_back.f_code.co_name if frame.f_back else ""
    return not SENDS.isdisjoint(callers)


def test_whoever_waits_is_woken_at_whatever_step_a_poke_is_interrupted(tmp_path: Path) -> None:
    ours, theirs = (ThreadJobs(find(f"sqlite://{tmp_path}/locks.db?sync=none")[1]) for _ in "12")
    ours.engine.put(Put("q", "lane", 1, (Job("one", "", b"1"),), 0.0), WITHIN_S)
    for step in itertools.count():
        # Given one who waits for a job that another one has
        given, waits = take(2 * step), take(2 * step + 1)
        assert ours.engine.take(given, WITHIN_S).deliveries
        assert theirs.engine.take(waits, WITHIN_S).deliveries == ()
        # When it is given back, and that is interrupted
        was = interrupted(partial(ours.engine.give_back, given, WITHIN_S), step, pokes)
        # Then the next verb, or this one, has woken the other
        ours.engine.survey("q", True, WITHIN_S)
        assert run_sync(theirs.sleep(waits.id, 2.0)), f"after an interrupt at step {step}"
        theirs.unlisten(waits.id)
        if not was:
            break
    assert step > 20
    ours.close()
    theirs.close()
