"""The judge of histories finds every kind of seeded defect, and reports no other defect."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client
from holdfast.testing.faults import dice
from holdfast.testing.histories import BadHistory, Recorder, judge, judge_files, tell

Event = dict[str, Any]
MILLION = 1_000_000
#: Maximum CPU seconds for judging a million events.
LIMIT_S = 30.0


class Worker:
    """Writes a history by hand, with chosen times."""

    def __init__(self, name: str, events: list[Event]) -> None:
        self.name = name
        self.events = events
        self.count = 0

    def note(self, when: float, op: str, **known: Any) -> Event:
        self.events.append({"t": when, "p": self.name, "op": op, **known})
        return self.events[-1]

    def hold(self, start: float, end: float, fence: int, **other: Any) -> int:
        """Record a request, a hold from ``start`` to ``end``, and a release."""
        self.count += 1
        spec: Event = {"name": "x", "kind": "lock", "weight": 1, "capacity": 1, **other}
        self.note(spec.pop("asked", start - 0.1), "ask", c=self.count, **spec)
        self.note(start, "held", c=self.count, fence=fence, until=start + 30.0)
        self.note(end, "leaving", c=self.count)
        self.note(end + 0.01, "left", c=self.count, kept=True)
        return self.count


def broken(events: list[Event]) -> dict[str, int]:
    """The promises that this history breaks, with the number of violations of each."""
    return judge([json.dumps(event) for event in events]).counts


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def one(events: list[Event]) -> Worker:
    return Worker("one", events)


@pytest.fixture
def two(events: list[Event]) -> Worker:
    return Worker("two", events)


def test_a_good_history_breaks_nothing(one: Worker, two: Worker, events: list[Event]) -> None:
    one.hold(1, 2, 10)
    two.hold(2, 3, 11, asked=1.5)
    one.hold(3, 4, 12, name="y")
    assert broken(events) == {}


def test_two_holders_at_once_are_found(one: Worker, two: Worker, events: list[Event]) -> None:
    one.hold(1, 2, 10)
    two.hold(1.99, 3, 11, asked=1.5)
    assert broken(events) == {"exclusion": 1}


def test_a_claim_made_while_the_state_was_damaged_no_longer_counts(
    one: Worker, two: Worker, events: list[Event]
) -> None:
    # Given two holders, of which the first was granted before or during a damage reported later
    one.hold(1, 2, 10)
    two.hold(1.5, 3, 11, asked=1.4)
    assert broken(events) == {"exclusion": 1}
    one.note(1.6, "damaged", who="x", since=1.55)
    assert broken(events) == {"exclusion": 1}
    one.note(1.6, "damaged", who="x", since=1.3)
    assert broken(events) == {}


def test_a_hold_counts_only_until_its_last_known_deadline(
    one: Worker, two: Worker, events: list[Event]
) -> None:
    # Given a holder that was stopped and did not check its hold again
    one.note(1, "ask", c=1, name="x", kind="lock", weight=1, capacity=1)
    one.note(1.1, "held", c=1, fence=10, until=3.0)
    # When another holds after that
    two.hold(3.1, 4, 11, asked=2)
    # Then nothing is proven
    assert broken(events) == {}
    # But if the first holder checked its hold later and found it valid, there were two holders
    one.note(3.5, "look", c=1, until=3.0)
    assert broken(events) == {"exclusion": 1}


def test_a_holder_that_knows_of_its_loss_overlaps_no_other(
    one: Worker, two: Worker, events: list[Event]
) -> None:
    one.note(1, "ask", c=1, name="x", kind="lock", weight=1, capacity=1)
    one.note(1.1, "held", c=1, fence=10, until=30.0)
    one.note(2, "lost", c=1, why="broken")
    two.hold(2.1, 4, 11, asked=2)
    assert broken(events) == {}


def test_the_dead_hold_nothing(one: Worker, two: Worker, events: list[Event]) -> None:
    one.note(1, "ask", c=1, name="x", kind="lock", weight=1, capacity=1)
    one.note(1.1, "held", c=1, fence=10, until=30.0)
    two.hold(2.1, 4, 11, asked=2)
    assert broken(events) == {"exclusion": 1}
    Worker("nemesis", events).note(2, "dead", who="one")
    assert broken(events) == {}


def test_one_permit_too_many_is_found(one: Worker, events: list[Event]) -> None:
    for number, weight in enumerate((2, 1, 1)):
        one.hold(1, 2, 10 + number, kind="semaphore", weight=weight, capacity=4)
    assert broken(events) == {}
    one.hold(1.5, 2, 13, kind="semaphore", weight=1, capacity=4, asked=0.9)
    assert broken(events) == {"exclusion": 1}


def test_a_reader_beside_a_writer_is_found(one: Worker, two: Worker, events: list[Event]) -> None:
    for number in range(3):
        one.hold(1, 2, 10 + number, kind="rwlock", weight=1, capacity=100)
    assert broken(events) == {}
    two.hold(1.9, 3, 14, kind="rwlock", weight=100, capacity=100, asked=0.9)
    assert broken(events) == {"exclusion": 1}


def test_a_writer_that_was_downgraded_may_share(
    one: Worker, two: Worker, events: list[Event]
) -> None:
    number = one.hold(1, 3, 10, kind="rwlock", weight=100, capacity=100)
    two.hold(2, 4, 11, kind="rwlock", weight=1, capacity=100, asked=1.5)
    assert broken(events) == {"exclusion": 1}
    one.note(1.9, "shrink", c=number, weight=1)
    assert broken(events) == {}


def test_a_falling_fence_is_found(one: Worker, two: Worker, events: list[Event]) -> None:
    one.hold(1, 2, 10)
    two.hold(3, 4, 9, asked=2.5)
    assert broken(events) == {"fence order": 1}


def test_claims_requested_at_the_same_time_may_come_in_any_order(
    one: Worker, two: Worker, events: list[Event]
) -> None:
    one.hold(3, 4, 10, asked=1)
    two.hold(1, 2, 9, asked=1)
    assert broken(events) == {}


def test_a_fence_given_twice_is_found(one: Worker, two: Worker, events: list[Event]) -> None:
    one.hold(1, 2, 10)
    two.hold(3, 4, 10)
    assert broken(events) == {"duplicate fence": 1}


def test_a_claim_overtaken_in_line_is_found(one: Worker, two: Worker, events: list[Event]) -> None:
    one.hold(5, 6, 12, asked=1, place=1)
    two.hold(3, 4, 11, asked=2, place=2)
    assert broken(events) == {"FIFO": 1}
    # But this is no violation if the first process was stopped meanwhile and so lost its place
    Worker("nemesis", events).note(2.5, "stopped", who="one")
    Worker("nemesis", events).note(2.9, "continued", who="one")
    assert broken(events) == {}


def test_a_late_guarded_write_is_found(one: Worker, two: Worker, events: list[Event]) -> None:
    one.note(1, "write", w=1, thing="ledger", fence=10)
    one.note(2, "wrote", w=1, accepted=True)
    two.note(1.5, "write", w=1, thing="ledger", fence=9)
    two.note(2.5, "wrote", w=1, accepted=True)
    # Given two writes at the same time, either can be the first
    assert broken(events) == {}
    # But a write that began after the other one ended must not have a lower fence...
    two.note(3, "write", w=2, thing="ledger", fence=9)
    two.note(4, "wrote", w=2, accepted=True)
    assert broken(events) == {"guarded writes": 1}
    # ...unless it was refused
    events[-1]["accepted"] = False
    assert broken(events) == {}


def test_the_order_recorded_by_the_resource_itself_counts(
    one: Worker, two: Worker, events: list[Event]
) -> None:
    one.note(1, "write", w=1, thing="ledger", fence=10)
    one.note(2, "wrote", w=1, accepted=True, order=1)
    two.note(1, "write", w=1, thing="ledger", fence=9)
    two.note(2, "wrote", w=1, accepted=True, order=2)
    assert broken(events) == {"guarded writes": 1}


def test_a_waiter_that_is_never_answered_is_found(one: Worker, events: list[Event]) -> None:
    one.note(1, "ask", c=1, name="x", kind="lock", weight=1, capacity=1)
    # Given a worker whose end is not recorded
    assert broken(events) == {}
    # When it ended and no request was pending, it has left its waiter without an answer
    one.note(2, "bye")
    assert broken(events) == {"acquire answered": 1}
    # But this is no violation if the worker was killed
    Worker("nemesis", events).note(2, "dead", who="one")
    assert broken(events) == {}


def test_a_waiter_whose_time_is_long_over_is_found(one: Worker, events: list[Event]) -> None:
    one.note(1, "ask", c=1, name="x", kind="lock", weight=1, capacity=1, timeout=2.0)
    Worker("two", events).hold(20, 21, 10, name="y")
    assert broken(events) == {"acquire answered": 1}
    Worker("nemesis", events).note(1.5, "stopped", who="one")
    assert broken(events) == {}


def test_an_answer_that_comes_too_late_is_found(one: Worker, events: list[Event]) -> None:
    for number in range(1, 1500):
        one.note(1, "ask", c=number, name="x", kind="lock", weight=1, capacity=1, timeout=2.0)
        one.note(3.2, "busy", c=number)
    # Given that one answer in a thousand took longer, as can happen on a busy machine
    events[1]["t"] = 4.0
    assert broken(events) == {}
    # When one more answer is late, this is a violation
    events[3]["t"] = 4.0
    assert broken(events) == {"bounded waiting": 2}
    # Then only a recorded stop of the process excuses the late answers
    Worker("nemesis", events).note(1.5, "stopped", who="one")
    Worker("nemesis", events).note(3.5, "continued", who="one")
    assert broken(events) == {}


def test_a_look_that_passes_after_the_loss_is_found(one: Worker, events: list[Event]) -> None:
    one.note(1, "ask", c=1, name="x", kind="lock", weight=1, capacity=1)
    one.note(1.1, "held", c=1, fence=10, until=30.0)
    one.note(2, "lost", c=1, why="expired")
    one.note(3, "look", c=1, until=30.0)
    assert broken(events) == {"no resurrection": 1}


def test_the_story_names_claims_and_times(one: Worker, two: Worker, events: list[Event]) -> None:
    one.hold(1, 2, 10)
    two.hold(1.99, 3, 11, asked=1.5)
    said = tell(judge([json.dumps(event) for event in events]))
    assert "BROKEN exclusion: 1 times" in said
    assert "0.1000 s claim 1 of one holds, fence 10" in said
    assert "1.0900 s claim 1 of two holds, fence 11" in said


def test_a_line_that_is_no_event_is_named(one: Worker, events: list[Event]) -> None:
    one.hold(1, 2, 10)
    lines = [json.dumps(event) + "\n" for event in events]
    # Given a last line that was cut short by a kill, the judge ignores it
    assert judge([*lines, lines[0][:20]]).good
    # When the cut line is in the middle, then it is an error
    with pytest.raises(BadHistory, match="history 1, line 2: not an event"):
        judge([lines[0], lines[1][:20], *lines[2:]])
    with pytest.raises(BadHistory, match="line 1"):
        judge(['{"t": 1, "p": "one", "op": "dance"}\n'])


def grow(many: int, chance: random.Random) -> list[Event]:
    """A clean history of at least ``many`` events: fifty names, eight workers, fenced writes."""
    events: list[Event] = []
    workers = [Worker(f"worker-{number}", events) for number in range(8)]
    fence, free = 0, dict.fromkeys((f"name-{n}" for n in range(50)), 0.0)
    now = 0.0
    while len(events) < many:
        now += chance.random() * 0.001
        fence += chance.randrange(1, 3)
        worker, name = chance.choice(workers), chance.choice(list(free))
        start = max(now, free[name])
        end = free[name] = start + chance.random() * 0.01
        worker.hold(start, end, fence, name=name, asked=start - chance.random() * 0.01, timeout=5.0)
        worker.count += 1
        worker.note(start, "write", w=worker.count, thing=name, fence=fence)
        worker.note(end, "wrote", w=worker.count, accepted=True)
    return events


def namesake(events: list[Event], spoilt: Event) -> Event:
    """The grant of another claim to the same name."""
    names = {(e["p"], e["c"]): e["name"] for e in events if e["op"] == "ask"}
    name = names[spoilt["p"], spoilt["c"]]
    held = (e for e in events if e["op"] == "held" and e is not spoilt)
    return next(e for e in held if names[e["p"], e["c"]] == name)


Spoil = Callable[[list[Event], Event], None]
#: Maps each promise to the kind of event that is spoilt to break it, and to the change.
DEFECTS: dict[str, tuple[str, Spoil]] = {
    "exclusion": ("leaving", lambda _, e: e.update(t=e["t"] + 0.5)),
    "duplicate fence": ("held", lambda es, e: e.update(fence=namesake(es, e)["fence"])),
    "fence order": ("held", lambda _, e: e.update(fence=10**9)),
    "guarded writes": ("write", lambda _, e: e.update(fence=0)),
    "bounded waiting": ("ask", lambda _, e: e.update(timeout=-5.0)),
    "acquire answered": ("held", lambda _, e: e.update(op="bye")),
}


@pytest.mark.usual(3)
@pytest.mark.parametrize("promise", DEFECTS)
def test_a_seeded_defect_among_many_thousand_events_is_found(promise: str) -> None:
    # Given a long clean history
    chance = dice(f"a defect: {promise}")
    events = grow(30_000, chance)
    assert broken(events) == {}
    # When one event of it is spoilt (20 for late answers, because one in a thousand is allowed)
    op, spoil = DEFECTS[promise]
    start = chance.randrange(2000, 3000)
    count = 20 if promise == "bounded waiting" else 1
    for event in [event for event in events if event["op"] == op][start : start + count]:
        spoil(events, event)
    # Then the promise that it breaks is named
    found = broken(events)
    assert promise in found, found


@pytest.mark.usual(0)
def test_a_million_events_are_judged_in_seconds() -> None:
    # Given a clean history of a million events
    lines: list[str] = []
    lock = '"kind":"lock","weight":1,"capacity":1,"timeout":5.0'
    for number in range(MILLION // 4):
        who = f'"p":"worker-{number % 8}","c":{number}'
        now = number * 0.001
        lines += (
            f'{{"t":{now - 0.002},{who},"op":"ask","name":"name-{number % 50}",{lock}}}',
            f'{{"t":{now},{who},"op":"held","fence":{number + 1},"until":{now + 30}}}',
            f'{{"t":{now + 0.04},{who},"op":"leaving"}}',
            f'{{"t":{now + 0.05},{who},"op":"left","kept":true}}',
        )
    # When it is judged
    begun = time.process_time()  # which others have no part in
    verdict = judge(lines)
    took = time.process_time() - begun
    # Then no defect is found, and judging is fast enough
    print(f"{verdict.events:,} events in {took:.1f} s")
    assert verdict.events == MILLION
    verdict.demand()
    assert took < LIMIT_S
    # And one defect in it is found
    lines[2] = lines[2].replace('"t":0.04', '"t":0.06')
    assert judge(lines[:400]).counts == {"exclusion": 1}


def test_what_a_recorder_writes_is_judged_by_the_command(tmp_path: Path) -> None:
    # Given a worker that records its actions on a real lock
    file = tmp_path / "one.jsonl"
    recorder = Recorder(file, "one")
    with Client("memory://recorded") as client:
        claim = recorder.ask("x", timeout=1.0)
        hold = client.lock("x").acquire(timeout=1.0)
        assert hold is not None
        recorder.held(claim, hold)
        other = recorder.ask("x", timeout=0.0)
        assert client.lock("x").acquire(timeout=0) is None
        recorder.busy(other)
        recorder.look(claim, hold)
        number = recorder.write("ledger", hold.fence)
        recorder.wrote(number, True)
        recorder.leaving(claim)
        recorder.left(claim, hold.release())
    recorder.bye()
    recorder.close()
    assert judge_files(file).good
    # When the command judges the file, then it reports no broken promise
    command = [sys.executable, "-m", "holdfast.testing", "judge", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no promise is broken" in done.stdout
    assert "held 1, busy 1" in done.stdout
    # And when a second worker claims a hold in the same time, the command prints both holds
    start = json.loads(file.read_text().splitlines()[1])["t"]
    events: list[Event] = []
    Worker("two", events).hold(start + 1e-5, start + 1, hold.fence + 1)
    second = tmp_path / "two.jsonl"
    second.write_text("".join(json.dumps(event) + "\n" for event in events))
    done = subprocess.run([*command, str(second)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "BROKEN exclusion" in done.stdout
    # And a file that is no history is named in the error
    second.write_text("hello\n")
    done = subprocess.run([*command, str(second)], capture_output=True, text=True)
    assert done.returncode == 2
    assert "line 1" in done.stderr
