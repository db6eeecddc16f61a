"""Traps of time: a client whose clock differs."""

from __future__ import annotations

import pytest

from holdfast.testing.faults import Subject
from tests.traps.conftest import Ours


@pytest.mark.usual(2)
@pytest.mark.parametrize("wrong_by_s", ["3600", "-3600"])
def test_the_wall_clock_of_a_client_of_holdfast_has_no_effect(
    ours: Ours, redis_url: str, own_name: str, wrong_by_s: str
) -> None:
    known = {"first": "tests.traps.wrong_clock", "environment": {"WRONG_BY_S": wrong_by_s}}
    with Subject("tests.traps.workers:tries", redis_url, own_name, **known) as one:
        # Given a holder whose clock is right
        with ours().lock(own_name) as hold:
            # Then the client with the wrong clock is refused
            one.say("try")
            assert one.hear() is None
            hold.check()
        # And it gets the lock after that, with a greater fence
        one.say("try")
        assert one.hear() > hold.fence
        assert one.end() == 0
    with ours().lock(own_name, timeout=5) as later:
        assert later.fence > hold.fence
