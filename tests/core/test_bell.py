"""The event that threads of a store wait for, with Ctrl-C at each of its points."""

from __future__ import annotations

import contextlib
import itertools
import threading

import pytest

from holdfast.runtime.blocking import Bell
from holdfast.testing.faults import Strike

#: Maximum seconds until a woken thread has returned.
SOON_S = 5.0
#: Lower bound for the number of interruption points of a bell.
POINTS = 2


def rung(bell: Bell) -> bool:
    """Return whether a set still wakes a waiter."""
    woken: list[bool] = []
    works = (lambda: woken.append(bell.wait(SOON_S)), bell.set)
    threads = [threading.Thread(target=each, daemon=True) for each in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON_S)
    return woken == [True]


@pytest.mark.parametrize("verb", ["set", "wait"])
def test_an_interrupt_inside_a_bell_leaves_it_usable(verb: str) -> None:
    for number in itertools.count(1):
        bell = Bell()
        strike = Strike(number, within=("holdfast.runtime.blocking", "threading"))
        with contextlib.suppress(KeyboardInterrupt), strike:
            bell.wait(0.0) if verb == "wait" else bell.set()
        assert rung(bell), strike.where
        if not strike.where:
            break
    assert number > POINTS
