"""The judge of histories finds every kind of seeded defect, and reports no other defect."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client
from holdfast.testing.histories import BadHistory, Recorder, judge, judge_files, tell

Event = dict[str, Any]
MILLION = 1_000_000
#: Maximum CPU seconds for judging a million events.
LIMIT_S = 30.0


_claims = itertools.count(1)


def note(who: str, when: float, op: str, /, **known: Any) -> list[Event]:
    """A history of one event."""
    return [{"t": when, "p": who, "op": op, **known}]


def asks(who: str, when: float, claim: int, **other: Any) -> list[Event]:
    known = {"name": "x", "kind": "lock", "weight": 1, "capacity": 1, **other}
    return note(who, when, "ask", c=claim, **known)


def hold(
    who: str, start: float, end: float, fence: int, claim: int = 0, **more: Any
) -> list[Event]:
    """A request, a hold from ``start`` to ``end``, and a release."""
    claim = claim or next(_claims) + 100
    return [
        *asks(who, more.pop("asked", start - 0.1), claim, **more),
        *note(who, start, "held", c=claim, fence=fence, until=start + 30.0),
        *note(who, end, "leaving", c=claim),
        *note(who, end + 0.01, "left", c=claim, kept=True),
    ]


def write(who: str, begun: float, ended: float, fence: int, **more: Any) -> list[Event]:
    number = next(_claims)
    return [
        *note(who, begun, "write", w=number, thing="ledger", fence=fence),
        *note(who, ended, "wrote", **{"w": number, "accepted": True, **more}),
    ]


def away(who: str, since: float, until: float) -> list[Event]:
    stopped = note("nemesis", since, "stopped", who=who)
    return stopped + note("nemesis", until, "continued", who=who)


def broken(events: list[Event]) -> dict[str, int]:
    """The promises that this history breaks, with the number of violations of each."""
    return judge([json.dumps(event) for event in events]).counts


def answered(numbers: range, when: float) -> list[Event]:
    """Requests with a time-out of 2 s, and their answers at this time."""
    each = (asks("one", 1, n, timeout=2.0) + note("one", when, "busy", c=n) for n in numbers)
    return [event for both in each for event in both]


EXCLUSION = {"exclusion": 1}
READER = {"kind": "rwlock", "weight": 1, "capacity": 100}
WRITER = READER | {"weight": 100}
SEMAPHORE = {"kind": "semaphore", "capacity": 4}
#: A holder that does not check its hold again, or never releases it.
STOPPED = asks("one", 1, 1) + note("one", 1.1, "held", c=1, fence=10, until=3.0)
SILENT = asks("one", 1, 1) + note("one", 1.1, "held", c=1, fence=10, until=30.0)
TWO = hold("one", 1, 2, 10) + hold("two", 1.5, 3, 11, asked=1.4)
FULL = [
    e
    for n, weight in enumerate((2, 1, 1))
    for e in hold("one", 1, 2, 10 + n, weight=weight, **SEMAPHORE)
]
READERS = [e for n in range(3) for e in hold("one", 1, 2, 10 + n, **READER)]
DOWNGRADED = hold("one", 1, 3, 10, 1, **WRITER) + hold("two", 2, 4, 11, asked=1.5, **READER)
OVERTAKEN = hold("one", 5, 6, 12, asked=1, place=1) + hold("two", 3, 4, 11, asked=2, place=2)
WRITES = write("one", 1, 2, 10) + write("two", 1.5, 2.5, 9)
GONE = asks("one", 1, 1) + note("one", 2, "bye")
LATE = asks("one", 1, 1, timeout=2.0) + hold("two", 20, 21, 10, name="y")
BUSY = answered(range(1, 1500), 3.2)
TARDY = BUSY + answered(range(1600, 1602), 4.0)
#: Histories, and the promises that they break. One late answer in a thousand is allowed.
HISTORIES: dict[str, tuple[list[Event], dict[str, int]]] = {
    "good": (
        hold("one", 1, 2, 10) + hold("two", 2, 3, 11, asked=1.5) + hold("one", 3, 4, 12, name="y"),
        {},
    ),
    "two holders at once": (TWO, EXCLUSION),
    "granted before the damage": (
        TWO + note("one", 1.6, "damaged", who="x", since=1.55),
        EXCLUSION,
    ),
    "granted during the damage": (TWO + note("one", 1.6, "damaged", who="x", since=1.3), {}),
    "after the last known deadline": (STOPPED + hold("two", 3.1, 4, 11, asked=2), {}),
    "a later look passed": (
        STOPPED + hold("two", 3.1, 4, 11, asked=2) + note("one", 3.5, "look", c=1, until=3.0),
        EXCLUSION,
    ),
    "the loss was known": (
        SILENT + note("one", 2, "lost", c=1, why="broken") + hold("two", 2.1, 4, 11, asked=2),
        {},
    ),
    "next to a silent holder": (SILENT + hold("two", 2.1, 4, 11, asked=2), EXCLUSION),
    "next to a dead holder": (
        SILENT + hold("two", 2.1, 4, 11, asked=2) + note("nemesis", 2, "dead", who="one"),
        {},
    ),
    "all permits": (FULL, {}),
    "one permit too many": (
        FULL + hold("one", 1.5, 2, 13, weight=1, asked=0.9, **SEMAPHORE),
        EXCLUSION,
    ),
    "readers": (READERS, {}),
    "a reader and a writer": (READERS + hold("two", 1.9, 3, 14, asked=0.9, **WRITER), EXCLUSION),
    "a writer and a reader": (DOWNGRADED, EXCLUSION),
    "a downgraded writer": (DOWNGRADED + note("one", 1.9, "shrink", c=1, weight=1), {}),
    "a falling fence": (
        hold("one", 1, 2, 10) + hold("two", 3, 4, 9, asked=2.5),
        {"fence order": 1},
    ),
    "requested at once": (hold("one", 3, 4, 10, asked=1) + hold("two", 1, 2, 9, asked=1), {}),
    "a fence given twice": (hold("one", 1, 2, 10) + hold("two", 3, 4, 10), {"duplicate fence": 1}),
    "overtaken in line": (OVERTAKEN, {"FIFO": 1}),
    "overtaken while stopped": (OVERTAKEN + away("one", 2.5, 2.9), {}),
    "two writes at once": (WRITES, {}),
    "a late write": (WRITES + write("two", 3, 4, 9), {"fenced writes": 1}),
    "a late write that was refused": (WRITES + write("two", 3, 4, 9, accepted=False), {}),
    "the order of the resource": (
        write("one", 1, 2, 10, order=1) + write("two", 1, 2, 9, order=2),
        {"fenced writes": 1},
    ),
    "a worker whose end is not recorded": (asks("one", 1, 1), {}),
    "a waiter that is never answered": (GONE, {"acquire answered": 1}),
    "a waiter that was killed": (GONE + note("nemesis", 2, "dead", who="one"), {}),
    "a waiter whose time has expired": (LATE, {"acquire answered": 1}),
    "a waiter that was stopped": (LATE + note("nemesis", 1.5, "stopped", who="one"), {}),
    "one late answer": (BUSY + answered(range(1600, 1601), 4.0), {}),
    "two late answers": (TARDY, {"bounded waiting": 2}),
    "two late answers of a stopped process": (TARDY + away("one", 1.5, 3.5), {}),
    "a look that passes after the loss": (
        SILENT + note("one", 2, "lost", c=1, why="expired") + note("one", 3, "look", c=1, until=30),
        {"no resurrection": 1},
    ),
}


@pytest.mark.parametrize("what", HISTORIES)
def test_exactly_the_broken_promises_are_found(what: str) -> None:
    events, promises = HISTORIES[what]
    assert broken(events) == promises


def test_the_story_names_claims_and_times() -> None:
    events = hold("one", 1, 2, 10, 1) + hold("two", 1.99, 3, 11, 1, asked=1.5)
    said = tell(judge([json.dumps(event) for event in events]))
    assert "BROKEN exclusion: 1 times" in said
    assert "0.1000 s claim 1 of one holds, fence 10" in said
    assert "1.0900 s claim 1 of two holds, fence 11" in said


def test_a_line_that_is_no_event_is_named() -> None:
    lines = [json.dumps(event) + "\n" for event in hold("one", 1, 2, 10)]
    # Given a last line that was cut short by a kill, the judge ignores it
    assert judge([*lines, lines[0][:20]]).good
    # When the cut line is in the middle, then it is an error
    with pytest.raises(BadHistory, match="history 1, line 2: not an event"):
        judge([lines[0], lines[1][:20], *lines[2:]])
    with pytest.raises(BadHistory, match="line 1"):
        judge(['{"t": 1, "p": "one", "op": "dance"}\n'])


@pytest.mark.usual(0)
def test_a_million_events_are_judged_in_seconds() -> None:
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
    begun = time.process_time()  # which others have no part in
    verdict = judge(lines)
    took = time.process_time() - begun
    print(f"{verdict.events:,} events in {took:.1f} s")
    assert verdict.events == MILLION
    verdict.demand()
    assert took < LIMIT_S
    lines[2] = lines[2].replace('"t":0.04', '"t":0.06')
    assert judge(lines[:400]).counts == {"exclusion": 1}


def test_what_a_recorder_writes_is_judged_by_the_command(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    recorder = Recorder(file, "one")
    with Client("memory://recorded") as client:
        claim = recorder.ask("x", timeout=1.0)
        mine = client.lock("x").acquire(timeout=1.0)
        assert mine is not None
        recorder.held(claim, mine)
        other = recorder.ask("x", timeout=0.0)
        assert client.lock("x").acquire(timeout=0) is None
        recorder.busy(other)
        recorder.look(claim, mine)
        number = recorder.write("ledger", mine.fence)
        recorder.wrote(number, True)
        recorder.leaving(claim)
        recorder.left(claim, mine.release())
    recorder.bye()
    recorder.close()
    assert judge_files(file).good
    command = [sys.executable, "-m", "holdfast.testing", "judge", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no promise is broken" in done.stdout
    assert "held 1, busy 1" in done.stdout
    # And when a second worker claims a hold in the same time, the command prints both holds
    start = json.loads(file.read_text().splitlines()[1])["t"]
    events = hold("two", start + 1e-5, start + 1, mine.fence + 1)
    second = tmp_path / "two.jsonl"
    second.write_text("".join(json.dumps(event) + "\n" for event in events))
    done = subprocess.run([*command, str(second)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "BROKEN exclusion" in done.stdout
    second.write_text("hello\n")
    done = subprocess.run([*command, str(second)], capture_output=True, text=True)
    assert done.returncode == 2
    assert "line 1" in done.stderr
