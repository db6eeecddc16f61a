"""A handled interrupt of a verb is forgotten, with all objects of the interrupted frames.

A connection of a small pool can be among them, and it counts as used while anything refers to it.
"""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest

from holdfast import Client
from holdfast.testing.faults import Step, aim


class Lent:
    """An object that a caller of the store has during the call."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_of_a_release_keeps_nothing_alive(when: str) -> None:
    lent: list[weakref.ref[Lent]] = []

    def strike(step: Step) -> None:
        if step == ("leave", when) and not lent:
            one = Lent()
            lent.append(weakref.ref(one))
            raise KeyboardInterrupt

    gc.disable()
    try:
        with Client("memory://") as client:
            hold = client.lock(when).acquire()
            with contextlib.suppress(KeyboardInterrupt), aim(client, strike):
                hold.release()
            assert lent[0]() is None
    finally:
        gc.enable()
