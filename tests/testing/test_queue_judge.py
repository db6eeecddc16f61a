"""The judge of queues: it finds every kind of planted defect, and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client
from holdfast.testing.histories import BadHistory, Recorder, judge, judge_files
from holdfast.testing.histories.command import main

Event = dict[str, Any]


class Story:
    """A history of one queue, written by hand with chosen times."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.count = 0

    def note(self, when: float, by: str, op: str, **known: Any) -> None:
        self.events.append({"t": when, "p": by, "op": op, **known})

    def put(self, group: str, *numbers: int, accepted: bool = True, **known: Any) -> None:
        self.count += 1
        jobs = [[group, number] for number in numbers]
        self.note(0.0, "putter", "put", w=self.count, jobs=jobs)
        if accepted:
            known = {"dropped": 0, "sent": 1, **known}
            self.note(0.1, "putter", "accepted", w=self.count, **known)

    def take(self, start: float, number: int, fence: int, **known: Any) -> int:
        """Let a worker take job ``number`` of a group, with a deadline 30 s later."""
        self.count += 1
        who = known.pop("who", "one")
        known = {"asked": start - 0.1, "group": "g", "until": start + 30.0, "attempt": 1, **known}
        self.note(start, who, "took", c=self.count, n=number, fence=fence, **known)
        return self.count

    def settle(self, end: float, kept: bool | None = True, how: str = "ack", **known: Any) -> None:
        """Settle the last delivery."""
        who = known.pop("who", "one")
        self.note(end, who, "leaving", c=self.count, how=how)
        if kept is not None:
            self.note(end + 0.01, who, "left", c=self.count, kept=kept)

    def do(self, start: float, end: float, number: int, fence: int, **known: Any) -> None:
        """Take a job and ack it."""
        self.take(start, number, fence, **known)
        self.settle(end, who=known.get("who", "one"))

    def broken(self, **how: Any) -> dict[str, int]:
        """Return the broken promises, with the number of violations of each."""
        return judge([json.dumps(event) for event in self.events], **how).counts


put, take, settle, do, note = (
    partial(methodcaller, name) for name in ("put", "take", "settle", "do", "note")
)
Steps = list[Callable[[Story], object]]
#: The broken promises that the judge must find in a history.
# fmt: off
STORIES: dict[str, tuple[dict[str, int], Steps]] = {
    "what was accepted and never done is lost": ({"nothing lost": 2}, [
        put("g", 1, 2), put("", 1), do(1.0, 1.1, 1, 10), take(2.0, 2, 11),
    ]),
    "what the queue still has is not lost": ({"nothing lost": 1}, [
        put("g", 1, 2, 3), put("", 9), do(1.0, 1.1, 1, 10),
        note(5.0, "nemesis", "there", jobs=[["g", 2], ["", 9]]),
    ]),
    # The ack of the second one was not answered, so it may be there
    "what was acked and is still in the queue is found": ({"once": 1}, [
        put("g", 1, 2), do(1.0, 1.1, 1, 10), take(2.0, 2, 11), settle(2.1, kept=None),
        note(5.0, "nemesis", "there", jobs=[["g", 1], ["g", 2]]),
    ]),
    "what may not have been accepted may be missing": ({}, [
        put("g", 1, 2, accepted=False), put("g", 3), do(1.0, 1.1, 1, 10), do(2.0, 2.1, 3, 11),
    ]),
    "an ack of a dead worker may have counted": ({}, [
        put("g", 1, 2), take(1.0, 1, 10), settle(1.1, kept=None), do(2.0, 2.1, 2, 11, who="two"),
    ]),
    "a refused ack does not count": ({"nothing lost": 1}, [
        put("g", 1), take(1.0, 1, 10, until=1.5), settle(2.0, kept=False),
    ]),
    "two at once are found": ({"one at a time": 2, "once": 1}, [
        put("g", 1, 2), put("", 5), do(1.0, 2.0, 1, 10), do(1.9, 2.5, 2, 11, who="two"),
        do(1.0, 2.0, 5, 1, group=""), do(1.9, 2.5, 5, 2, group="", who="two"),
    ]),
    "two overlaps with one long execution are found": ({"one at a time": 2}, [
        put("g", 1, 2, 3), do(1.0, 9.0, 1, 10), do(2.0, 2.1, 2, 11, who="two"),
        do(3.0, 3.1, 3, 12, who="two"),
    ]),
    "a job that overtakes is found": ({"order": 2}, [
        put("g", 1, 2, 3), do(1.0, 1.1, 1, 10), do(2.0, 2.1, 3, 11), do(3.0, 3.1, 2, 12),
    ]),
    "a job whose forerunner is not done is found": ({"order": 2}, [
        put("g", 1, 2), take(1.0, 1, 10), settle(1.1, how="retry"), do(2.0, 2.1, 2, 11),
        do(3.0, 3.1, 1, 12),
    ]),
    "what comes again after its ack is found": ({"once": 1}, [
        put("g", 1), do(1.0, 1.1, 1, 10), do(2.0, 2.1, 1, 11),
    ]),
    "a fence that falls is found": ({"fence": 1, "nothing lost": 1}, [
        put("g", 1, 2, 3), do(3.0, 3.1, 1, 10), do(2.0, 2.1, 2, 11),
    ]),
    "fences that fall or stay are found": ({"fence": 2}, [
        put("g", 1, 2, 3), do(3.0, 3.1, 1, 10), do(2.0, 2.1, 2, 11), do(4.0, 4.1, 3, 11),
    ]),
    "a delivery that was lost too early is found": ({"believed": 1}, [
        put("g", 1), take(1.0, 1, 10, until=5.0), settle(2.0, kept=False), do(6.0, 6.1, 1, 11),
    ]),
    "a job that was dropped is found": ({"accepted": 1}, [
        put("g", 1, dropped=1), do(1.0, 1.1, 1, 10), put("h", 1, dropped=1, sent=2),
        do(1.0, 1.1, 1, 10, group="h"),
    ]),
    "a job that was never put is found": ({"accepted": 1}, [
        put("g", 1), do(1.0, 1.1, 1, 10), do(2.0, 2.1, 2, 11),
    ]),
}
# fmt: on


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.mark.parametrize("told", STORIES)
def test_each_broken_promise_is_found_and_counted(told: str, story: Story) -> None:
    broken, steps = STORIES[told]
    for step in steps:
        step(story)
    assert story.broken() == broken


def test_a_good_history_breaks_nothing(story: Story) -> None:
    story.put("g", 1, 2, 3)
    story.put("h", 1)
    story.put("", 7)
    story.do(1.0, 1.2, 1, 10)
    story.do(1.1, 1.3, 1, 11, group="h")
    story.do(1.1, 1.3, 7, 1, group="")
    # Released, retried, lost by a killed worker, and lost by a stopped worker
    story.take(2.0, 2, 12)
    story.settle(2.1, how="return")
    story.take(3.0, 2, 13)
    story.settle(3.1, how="retry")
    story.take(4.0, 2, 14, who="dead")
    story.note(4.5, "nemesis", "dead", who="dead")
    story.take(5.0, 2, 15, until=5.5)
    late = story.count
    story.do(6.0, 6.1, 2, 16, who="two")
    story.note(7.0, "one", "leaving", c=late, how="ack")
    story.note(7.1, "one", "left", c=late, kept=False)
    story.do(8.0, 8.1, 3, 17)
    assert story.broken(interval=0.5) == {}


def test_an_execution_that_comes_too_soon_is_found(story: Story) -> None:
    story.put("g", 1, 2, 3)
    story.do(1.0, 1.4, 1, 10)
    story.do(1.8, 1.9, 2, 11)
    story.do(2.4, 2.5, 3, 12)
    assert story.broken(interval=0.4) == {}
    assert story.broken(interval=0.45) == {"interval": 1}
    assert story.broken(interval=0.55) == {"interval": 2}
    # From the take the interval is longer, and it begins when the take is sent, before its reply
    assert story.broken(interval=0.69, interval_from="take") == {}
    assert story.broken(interval=0.75, interval_from="take") == {"interval": 1}


def test_the_interval_of_a_dead_worker_counts_from_its_death(story: Story) -> None:
    story.put("g", 1)
    story.take(1.0, 1, 10, who="dead")
    story.note(1.5, "nemesis", "dead", who="dead")
    story.do(2.0, 2.1, 1, 11)
    assert story.broken(interval=0.4) == {}
    assert story.broken(interval=0.6) == {"interval": 1}


def test_a_torn_last_line_is_no_error_and_any_other_is(story: Story) -> None:
    story.put("g", 1)
    story.do(1.0, 1.1, 1, 10)
    lines = [json.dumps(event) + "\n" for event in story.events]
    assert judge([*lines, '{"t": 3.0, "p": "o']).good
    with pytest.raises(BadHistory, match="line 1"):
        judge(['{"t": 3.0}\n', *lines])


def test_a_program_of_ones_own_can_be_judged(tmp_path: Path) -> None:
    # Given a history that was recorded during real work
    here = Recorder(tmp_path / "one.jsonl", "one")
    with Client("memory://judged") as client:
        queue = client.queue("mine")
        put = here.put([("g", 1), ("g", 2)])
        receipts = queue.put_many([1, 2], group="g")
        here.accepted(put, sum(one.duplicate for one in receipts), 1)
        for _ in range(2):
            asked = time.monotonic()
            job = queue.take(timeout=5)
            assert job is not None
            number = here.took(asked, "g", job.payload, job)
            here.look(number, job)
            here.settling(number, "ack")
            here.left(number, job.ack())
    here.bye()
    here.close()
    # Then it can be judged, also by the command
    found = judge_files(tmp_path / "one.jsonl")
    found.demand()
    assert (found.figures["jobs"], found.figures["acked"]) == (2, 2)
    assert main(["--interval", "0", str(tmp_path / "one.jsonl")]) == 0
    # And the judge finds a fault when lines are missing
    lines = (tmp_path / "one.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "one.jsonl").write_text("".join(lines[:-3]))
    assert main(["--interval", "0", str(tmp_path / "one.jsonl")]) == 1
