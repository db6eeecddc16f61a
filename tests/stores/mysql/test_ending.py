"""A given-up connection counts against the pool: see ``tests/stores/ending.py``."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from holdfast import Client
from holdfast.stores.mysql.blocking.lost import Graveyard
from holdfast.stores.mysql.blocking.port import ThreadPort
from holdfast.testing.faults import Strike
from tests.stores.ending import *  # noqa: F403
from tests.stores.ending import TURN, TURNS


@pytest.fixture
def hasty() -> str:
    return "&connect_timeout=0.1"


def test_an_interrupt_of_one_that_ends_a_stubborn_session_keeps_no_other_from_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    # Given a session that doesn't end by itself
    monkeypatch.setattr(Graveyard, "stubborn", lambda _: iter([1]))
    monkeypatch.setattr(ThreadPort, "_kill", lambda _, until: ended.append(1))
    with Client(url) as client:
        there = client._ctx.store._port  # type: ignore[attr-defined]
        for number in itertools.count(1):
            strike = Strike(number, function=TURN)
            with contextlib.suppress(KeyboardInterrupt), strike:
                there._end_the_stubborn(0.0)
            before = len(ended)
            there._end_the_stubborn(0.0)
            assert len(ended) == before + 1, strike.where
            if not strike.where:
                break
    assert number > TURNS
