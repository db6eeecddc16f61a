"""The wall clock of the server is set: see ``tests/stores/clock_steps.py``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.clock import Clock
from tests.servers.fixtures import NewRedis
from tests.stores.clock_steps import (
    test_a_clock_step_blocks_no_client_and_never_makes_two_holders,
    test_a_clock_that_is_set_back,
    test_leases_delays_and_pauses_end_as_they_should,
)
from tests.stores.stepped import ClockGround

__all__ = [
    "test_a_clock_step_blocks_no_client_and_never_makes_two_holders",
    "test_a_clock_that_is_set_back",
    "test_leases_delays_and_pauses_end_as_they_should",
]


@pytest.fixture
def clocked(new_redis: NewRedis, server_clock: Clock) -> Iterator[ClockGround]:
    with server_clock.worn():
        yield ClockGround(new_redis().url, server_clock)
