"""Test subjects: processes that exchange messages; a test can stop, continue or kill them."""

from __future__ import annotations

import os
import signal
import time

import pytest

from holdfast.testing.faults import Fork, Subject, SubjectGone

ACTS = "tests.faults.acts"


def test_a_subject_talks_in_lines() -> None:
    with Subject(f"{ACTS}:echo", "hello") as one:
        # Then it sends the argument that it was started with, and not its printed text
        assert one.hear() == "hello"
        for value in (1, "zwei\n", None, {"three": [4.5]}):
            one.say(value)
        heard = [one.hear() for _ in range(2)]
        assert heard == [["heard", 1], ["heard", "zwei\n"]]
        assert one.end() == 0
        assert one.rest() == []


def test_a_stopped_subject_does_nothing_until_it_is_continued() -> None:
    with Subject(f"{ACTS}:count") as one:
        last = one.hear()
        # When it is stopped, and all messages that it had sent are read
        one.stop()
        while True:
            try:
                last = one.hear(0.2)
            except TimeoutError:
                break
        with pytest.raises(TimeoutError):
            one.hear(0.05)
        # And after it is continued, it sends the next number
        one.go_on()
        assert one.hear() == last + 1
    # And the end of the block ends it
    with pytest.raises(ProcessLookupError):
        os.kill(one.pid, 0)


def test_a_subject_that_stops_itself_is_waited_for() -> None:
    with Subject(f"{ACTS}:stops_itself") as one:
        one.stopped()
        one.go_on()
        assert one.hear() == "on again"
        assert one.end() == 0
        with pytest.raises(SubjectGone, match="ended with 0"):
            one.stopped()


def test_ctrl_c_reaches_it() -> None:
    with Subject(f"{ACTS}:waits_for_interrupt") as one:
        assert one.hear() == "ready"
        one.interrupt()
        assert one.hear() == "interrupted"


@pytest.mark.parametrize("stopped", [False, True])
def test_a_killed_subject_is_gone(stopped: bool) -> None:
    with Subject(f"{ACTS}:echo", "x") as one:
        one.hear()
        if stopped:
            one.stop()
        one.kill()
        assert one.ended == -signal.SIGKILL
        with pytest.raises(SubjectGone):
            one.hear()
        with pytest.raises(SubjectGone):
            one.say("y")


def test_a_module_may_be_imported_before_everything_else() -> None:
    module = "tests.mutants.plant"
    for first in ("", module):
        with Subject(f"{ACTS}:knows", module, first=first) as one:
            assert one.hear() is bool(first)


def test_a_fork_returns_its_result_or_its_error() -> None:
    here = os.getpid()
    with Fork(lambda: [os.getpid(), os.getppid()]) as child:
        assert child.result() == [child.pid, here]
    with Fork(lambda: 1 / 0) as child, pytest.raises(RuntimeError, match="ZeroDivisionError"):
        child.result()


def test_a_fork_that_hangs_is_killed() -> None:
    begun = time.monotonic()
    with Fork(signal.pause) as child:
        with pytest.raises(TimeoutError):
            child.result(0.05)
        child.kill()
        with pytest.raises(SubjectGone):
            child.result()
    assert time.monotonic() - begun < 5
