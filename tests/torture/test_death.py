"""Holders and waiters killed with -9: the next waiter holds immediately, on either face."""

from __future__ import annotations

import statistics
from contextlib import ExitStack

import pytest

from holdfast import Client
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Subject
from tests.torture.scale import FULL, figures, times

#: A usual run only distinguishes a noticed death from a wait for the end of the 30 s ttl.
MEDIAN_S, WORST_S = (0.020, 0.250) if FULL else (1.0, 5.0)
lag.watch()
ACTS = "tests.torture.acts"


def line(client: Client, waiters: int) -> None:
    """Wait until the line has this number of waiters."""
    end = boottime() + 20
    while True:
        lines = client.inspect("x", exact=True)
        if lines and len(lines[0].waiters) == waiters:
            return
        assert boottime() < end, lines


def judge(what: str, late: list[float], extra: float = 0.0) -> None:
    print(figures(what, late))
    assert statistics.median(late) <= MEDIAN_S + extra
    assert max(late) <= WORST_S + extra


@pytest.mark.usual(3)
@pytest.mark.parametrize("face", ["", "_in_a_loop"])
@pytest.mark.parametrize("between", [0, 1, 3])
def test_the_next_in_line_holds_at_once(between: int, face: str, url: str) -> None:
    # Given a holder with a ttl of 30 s, some waiters behind it, and a last waiter behind them
    late = []
    with Client(url) as client:
        for _ in range(times(50 if between == 0 else 25, 2)):
            with ExitStack() as stack:
                holder = stack.enter_context(Subject(f"{ACTS}:holds{face}", url, "x"))
                fence = holder.hear()
                subjects = []
                for place in range(between + 1):
                    waiter = Subject(f"{ACTS}:waits{face}", url, "x")
                    subjects.append(stack.enter_context(waiter))
                    assert waiter.hear() == "ready"
                    line(client, place + 1)
                *dying, last = subjects
                # When they die, first the waiters in the middle, then the holder
                for waiter in dying:
                    waiter.kill()
                killed = boottime()
                holder.kill()
                # Then the last waiter holds immediately
                next_fence, when, halts = last.hear()
                assert next_fence > fence
                theirs = sum(halt for at, halt in halts if killed < at)
                late.append(when - killed - max(theirs, lag.stolen(killed)))
    judge(f"holder and {between} waiters killed{face}", late, 0.020 * bool(between))


def test_a_try_after_the_holders_death_succeeds_at_once(url: str) -> None:
    with Client(url) as client:
        for _ in range(times(50, 3)):
            with Subject(f"{ACTS}:holds", url, "x") as holder:
                fence = holder.hear()
                assert client.lock("x").acquire(blocking=False) is None
                holder.kill()
                hold = client.lock("x").acquire(blocking=False)
                assert hold is not None
                assert hold.fence > fence
                assert hold.release()
