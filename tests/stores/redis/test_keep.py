"""The store's handling of the replies to a batch of renewals, whatever they contain."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import HoldfastError, StoreUnavailable
from holdfast.core.model import Gone, Held, Keep, Loss, Renewal, Standing
from holdfast.core.policy import PATIENCE_S
from holdfast.runtime.blocking import run_sync
from holdfast.stores.redis.complaints import ServerSaid
from holdfast.stores.redis.guard import WINDOW_S, Latest
from holdfast.stores.redis.library import KEEP, STAND
from holdfast.stores.redis.scripts import Call
from holdfast.stores.redis.store import RedisStore
from tests.stores.redis.verbs import claim


class Port:
    """A port that gives one prepared reply to KEEP, and records all calls."""

    label, patience, replicas, clustered = "stub", PATIENCE_S, 0, False
    guard = SimpleNamespace(on=False, window=WINDOW_S["reclaim"], mode="reclaim", latest=Latest())

    def __init__(self, said: Any) -> None:
        self.calls: list[Call] = []
        self.said = said

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Any]:
        self.calls += calls
        return [self.said if call.script is KEEP else [0, b"expired"] for call in calls]


def renewals(count: int) -> list[Keep]:
    return [Renewal(claim(f"n{number}"), 10 + number, 30.0) for number in range(count)]


def kept(port: Any, keeps: Sequence[Keep]) -> list[Standing | Exception]:
    return run_sync(RedisStore(port, "holdfast").keep(keeps, 1.0))


def test_each_answer_goes_to_its_own_claim_whatever_the_others_are() -> None:
    # Given a good renewal, a downgrade, a claim that the server doesn't know, one with an error,
    # one with a name that can't be sent, and one with another ticket
    port = Port([10, -1, b"ERR odd", 99])
    keeps = renewals(6)
    keeps[1] = keeps[1]._replace(weight=1)
    keeps[4] = Renewal(claim("\ud800"), 14, 30.0)
    found = kept(port, keeps)
    # Then two claims are asked for separately, and each gets its own answer
    assert [call.script for call in port.calls] == [KEEP, STAND, STAND]
    assert found[0] == Held(10, 30.0)
    assert found[1] == found[2] == Gone(Loss.EXPIRED)
    assert isinstance(found[3], HoldfastError)
    assert isinstance(found[4], UnicodeEncodeError)
    assert found[5] == Held(99, 30.0)


@pytest.mark.parametrize(
    "said",
    [ServerSaid("LOADING", "LOADING it loads"), StoreUnavailable("planted"), [10], 7],
    ids=str,
)
def test_an_error_of_the_whole_call_is_that_of_each_claim_in_it(said: object) -> None:
    assert [type(one) for one in kept(Port(said), renewals(2))] == [StoreUnavailable] * 2
