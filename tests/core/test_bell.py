"""The event that threads of a store wait for, and Ctrl-C at each of its steps."""

from __future__ import annotations

import threading
from functools import partial
from types import FrameType

import pytest

from holdfast.runtime import blocking
from holdfast.runtime.blocking import Bell
from tests.strike import interrupted

#: Whoever was woken is there within this time, in seconds.
SOON_S = 5.0


def of_a_bell(frame: FrameType) -> bool:
    return frame.f_globals["__name__"] in (blocking.__name__, "threading")


def rung(bell: Bell) -> bool:
    """Can it still be rung, and does who waits hear it?"""
    woken: list[bool] = []

    def waits() -> None:
        woken.append(bell.wait(SOON_S))

    threads = [threading.Thread(target=each, daemon=True) for each in (waits, bell.set)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON_S)
    return woken == [True]


@pytest.mark.parametrize("verb", ["set", "wait"])
def test_an_interrupt_amid_a_bell_keeps_nobody_from_ringing_it(verb: str) -> None:
    step, was = 0, True
    while was:
        bell = Bell()
        call = partial(bell.wait, 0.0) if verb == "wait" else bell.set
        was = interrupted(call, step, of_a_bell)
        assert rung(bell), f"after an interrupt at step {step} of {verb}"
        step += 1
    assert step > 10


def test_a_bell_wakes_all_who_wait_and_those_who_come_until_it_is_cleared() -> None:
    bell = Bell()
    woken: list[bool] = []
    crowd = [threading.Thread(target=lambda: woken.append(bell.wait(SOON_S))) for _ in range(5)]
    for thread in crowd:
        thread.start()
    bell.set()
    for thread in crowd:
        thread.join(SOON_S)
    assert woken == [True] * 5
    assert bell.is_set()
    assert bell.wait(0.0)
    bell.clear()
    assert not bell.wait(0.0)
