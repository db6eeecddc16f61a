"""Clients continue although the wall clock of a real server is set: tests of each store with a
server.

A store's module imports these tests. It has the fixture ``clocked``, a server whose clock can be
set.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.servers.clock import HOUR_S, STEPS_S, Clock
from tests.stores.between import STEPPED, what_was_begun_ends_as_it_should
from tests.stores.stepped import (
    ClockGround,
    a_dead_holder_is_gone_after_its_lease,
    a_join_whose_reply_was_lost_counts_from_its_repetition,
    clients_continue,
    jobs_come_as_if_nothing_had_happened,
)


@pytest.mark.usual(2)
@pytest.mark.parametrize("step", STEPS_S)
def test_a_clock_step_blocks_no_client_and_never_makes_two_holders(
    clocked: ClockGround, step: float
) -> None:
    clients_continue(clocked, step)


@pytest.mark.usual(1)
@pytest.mark.parametrize("step, slowly", STEPPED)
def test_leases_delays_and_pauses_end_as_they_should(
    clocked: ClockGround, step: float, slowly: bool
) -> None:
    what_was_begun_ends_as_it_should(clocked.url, clocked.clock, step, slowly)


@pytest.mark.usual(1)
@pytest.mark.parametrize(
    "what",
    [
        a_dead_holder_is_gone_after_its_lease,
        a_join_whose_reply_was_lost_counts_from_its_repetition,
        jobs_come_as_if_nothing_had_happened,
    ],
    ids=["lock", "lost", "queue"],
)
def test_a_clock_that_is_set_back(
    clocked: ClockGround, what: Callable[[str, Clock, float], None]
) -> None:
    what(clocked.url, clocked.clock, HOUR_S)
