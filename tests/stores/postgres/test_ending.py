"""A given-up connection counts against the pool: see ``tests/stores/ending.py``."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from holdfast import Client
from holdfast.stores.postgres.aio import port as aio
from holdfast.stores.postgres.blocking import cancel, port
from holdfast.testing.faults import Strike
from tests.stores.ending import *  # noqa: F403
from tests.stores.ending import LONG_S, TURN, TURNS


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancel, "DEAF_S", LONG_S)
    monkeypatch.setattr(cancel, "HELD_S", LONG_S)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(port, "CONNECT_S", 0.1)
    monkeypatch.setattr(aio, "CONNECT_S", 0.1)
    return ""


def test_an_interrupt_of_one_that_waits_keeps_no_other_from_listening(
    url: str, own_name: str
) -> None:
    with Client(url) as holder, holder.lock(own_name):
        for number in itertools.count(1):
            strike = Strike(number, function=TURN)
            with Client(url) as client:
                with contextlib.suppress(KeyboardInterrupt), strike:
                    client.lock(own_name).acquire(timeout=0.2)
                there = client._ctx.store._port  # type: ignore[attr-defined]
                assert not there._opening.taken(), strike.where
                assert not there._ear._reading.taken(), strike.where
            if not strike.where:
                break
    assert number > TURNS
