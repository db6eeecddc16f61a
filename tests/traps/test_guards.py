"""Traps of cached values: a caller that dies while it computes, and a caller that is paused."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from holdfast import Guard
from tests.traps.conftest import Ours

#: Number of callers that request a value at the same time.
MANY = 8
#: Maximum seconds of any act.
BOUND_S = 30.0


class Source:
    """The source of the value; it takes a moment, and counts its calls."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked: list[int] = []

    def __call__(self) -> bytes:
        self.asked.append(1)
        threading.Event().wait(self.seconds)
        return b"1"


def guard(ours: Ours, name: str, **options: Any) -> Guard:
    """The test's guard, with a new client."""
    return ours().guard(name, **{"ttl": 60, **options})


def test_a_dead_caller_of_holdfast_is_replaced_once_its_lease_expires(
    ours: Ours, own_name: str
) -> None:
    source, dying = Source(0.2), guard(ours, own_name, lease=0.5)
    inside, never = threading.Event(), threading.Event()

    def hang() -> bytes:
        dying._ctx.keeper.stop()  # as in a process that was killed
        inside.set()
        never.wait(BOUND_S)
        return b"late"

    made = [guard(ours, own_name) for _ in range(2)]
    with ThreadPoolExecutor(MANY + 1) as pool:
        late = pool.submit(dying.get, hang)
        assert inside.wait(BOUND_S)
        asked = [pool.submit(made[n % 2].get, source) for n in range(MANY)]
        assert [one.result(BOUND_S) for one in asked] == [b"1"] * MANY
        never.set()
        assert late.result(BOUND_S) == b"late"
    assert len(source.asked) == 1
    # The late result overwrites nothing
    assert guard(ours, own_name).get(source) == b"1"


def test_a_waiter_for_a_value_of_holdfast_blocks_no_other_caller(ours: Ours, own_name: str) -> None:
    go, paused, draw = threading.Event(), threading.Event(), iter([True])

    class Slow:
        """A codec that pauses the first ``decode`` in a waiter, as if it was swapped out."""

        def encode(self, value: bytes) -> bytes:
            return value

        def decode(self, data: bytes) -> bytes:
            if threading.current_thread().name.startswith("waits") and next(draw, False):
                paused.set()
                assert go.wait(BOUND_S)
            return data

    source = Source(0.3)
    computes, waits = (guard(ours, own_name, codec=Slow()) for _ in range(2))
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(MANY, "waits") as pool:
        computed = first.submit(computes.get, source)
        asked = [pool.submit(waits.get, source) for _ in range(MANY)]
        assert computed.result(BOUND_S) == b"1"
        assert paused.wait(BOUND_S)
        # Then all other callers continue, although this waiter is paused
        over = as_completed(asked, BOUND_S)
        assert [next(over).result() for _ in range(MANY - 1)] == [b"1"] * (MANY - 1)
        go.set()
        assert [one.result(BOUND_S) for one in asked] == [b"1"] * MANY
    assert len(source.asked) == 1
