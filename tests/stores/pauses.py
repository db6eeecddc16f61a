"""A pause after a failed computation was made longer from outside: it ends nevertheless."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from holdfast import Client, ComputeFailed
from holdfast.testing import lag

lag.watch()

#: Seconds of the pause after a failure, and seconds for which the failure is remembered (five times
#: as long).
PAUSE_S, MEMORY_S = 0.4, 2.0
#: Additional seconds on a busy machine.
BOUND_S = 5.0


def _fail() -> str:
    raise LookupError("no such thing")


def a_damaged_pause_ends_with_the_failure(
    client: Client, name: str, damage: Callable[[], object]
) -> None:
    """Check that no caller is blocked for longer than the failure is remembered.

    ``damage`` makes the pause as long as possible.
    """
    guard = client.guard(name, ttl=60, failure_ttl=PAUSE_S)
    with pytest.raises(LookupError):
        guard.get(_fail)
    damage()
    begun = time.monotonic()
    while True:
        try:
            assert guard.get(lambda: "value") == "value"
            break
        except ComputeFailed as barred:
            if time.monotonic() - begun > MEMORY_S + BOUND_S + lag.since(begun):
                raise AssertionError("it is barred for longer") from barred
            time.sleep(0.05)
    assert guard.get(_fail) == "value"
