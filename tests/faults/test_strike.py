"""Signal injection hits the points where the interpreter checks for signals, each in turn."""

from __future__ import annotations

import contextlib
import dis
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from holdfast.testing.faults import Strike, dice, points

HERE = (__name__,)


def called(number: int) -> int:
    return number + 1


def work() -> list[str]:
    """A function with calls in Python, calls in C, a loop, a handler and a generator."""
    steps = ["begun"]
    for number in range(3):
        steps += [str(called(number))]
    try:
        steps.remove("nowhere")
    except ValueError:
        steps.append("handled")
    steps.extend(name for name in ("a", "b"))
    return steps


def test_an_interrupt_is_raised_at_each_point_in_turn() -> None:
    many = points(work, within=HERE)
    assert many > 10
    assert points(work, within=HERE) == many
    struck = []
    for number in range(1, many + 1):
        with pytest.raises(KeyboardInterrupt), Strike(number, within=HERE) as strike:
            work()
        struck.append(strike.where)
        assert strike.points == number
    # Then every part of the work was interrupted, from the first to the last
    assert all(where.startswith(__name__) for where in struck)
    assert struck[0].endswith("in work")
    assert any(where.endswith("in called") for where in struck)
    assert len({where.partition(" ")[0] for where in struck}) >= 6
    # And the next point is beyond the end of the work
    with Strike(many + 1, within=HERE) as strike:
        work()
    assert strike.where == ""


def test_code_that_has_never_run_has_all_its_points() -> None:
    # An interpreter prepares code for tracing while the code runs. From Python 3.12 on, this
    # happens too late for code that has never run.
    new: dict[str, object] = {"__name__": __name__}
    exec("def added(number):\n    return str(number) + str(number)\n", new)
    added = cast("Callable[[int], str]", new["added"])
    many = points(lambda: added(1), within=HERE)
    assert many >= 3
    assert points(lambda: added(1), within=HERE) == many


def test_only_the_chosen_function_counts() -> None:
    many = points(work, function=f"{__name__}:called")
    assert many == 3
    with pytest.raises(KeyboardInterrupt), Strike(2, function=f"{__name__}:called") as strike:
        work()
    assert strike.where.endswith("in called")


def test_the_action_may_do_something_else() -> None:
    seen: list[int] = []
    with Strike(3, lambda: seen.append(1), within=HERE):
        assert work()[-1] == "b"
    assert seen == [1]


def test_other_packages_and_other_threads_are_left_alone() -> None:
    with Strike(1, within=("json",)) as strike:
        work()
        other = threading.Thread(target=work)
        other.start()
        other.join()
    assert strike.points == 0


@contextlib.contextmanager
def alarm(after: float) -> Iterator[None]:
    """Send a real signal after ``after`` seconds, whose handler raises as Ctrl-C does."""
    former = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def struck(failure: KeyboardInterrupt) -> tuple[str, int]:
    """The function of this module and the instruction after which a real signal was raised.

    The name is empty if the signal hit no function of this module.
    """
    found = "", -1
    trace = failure.__traceback__
    while trace is not None:
        code, at = trace.tb_frame.f_code, trace.tb_lasti
        if code in CODES:
            text = code.co_code
            while dis.opname[text[at]] in ("PRECALL", "CACHE"):
                at += 2  # it was done in one go with the call that follows
            found = code.co_name, at
        trace = trace.tb_next
    return found


CODES = (work.__code__, called.__code__)


def test_real_signals_arrive_only_at_these_points() -> None:
    # Given the instructions after which an injected signal can hit
    aimed = set()
    for number in range(1, points(work, within=HERE) + 1):
        with contextlib.suppress(KeyboardInterrupt), Strike(number, within=HERE) as strike:
            work()
        aimed.add((strike.where.rpartition(" ")[2], strike._after))
    chance = dice("real signals")
    real = set()
    count = 0
    end = time.monotonic() + 20
    while count < 300 and time.monotonic() < end:
        try:
            with alarm(chance.random() * 2e-4 + 1e-6):
                while True:
                    work()
        except KeyboardInterrupt as failure:
            where, at = struck(failure)
            if where:
                real.add((where, at))
                count += 1
    assert count == 300
    assert len(real) >= 5
    assert real <= aimed, f"{real - aimed} are not among {aimed}"
