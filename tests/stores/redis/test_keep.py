"""The store's handling of the replies to a batch of renewals, whatever they contain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import HoldfastError, StoreUnavailable
from holdfast.core.model import Gone, Held, Keep, Loss, Renewal, Standing
from holdfast.core.policy import PATIENCE_S
from holdfast.runtime.blocking import run_sync
from holdfast.stores.redis.complaints import ServerSaid
from holdfast.stores.redis.guard import WINDOW_S, Latest
from holdfast.stores.redis.library import KEEP, RECLAIM, STAND
from holdfast.stores.redis.scripts import Call
from holdfast.stores.redis.store import RedisStore
from tests.stores.redis.verbs import claim


class Guard:
    """The recovery of a server that can lose data, or of a server that can't."""

    window = WINDOW_S["reclaim"]
    mode = "reclaim"

    def __init__(self, on: bool) -> None:
        self.on = on
        self.latest = Latest()


class Port:
    """A port that gives prepared replies to KEEP, and records all calls."""

    label, patience, replicas = "stub", PATIENCE_S, 0

    def __init__(self, guard: bool = False, clustered: bool = False) -> None:
        self.guard = Guard(guard)
        self.clustered = clustered
        self.calls: list[Call] = []
        #: The replies to the calls of KEEP, in order.
        self.said: list[Any] = []
        self.alone: Any = [0, b"expired"]

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Any]:
        self.calls += calls
        return [self.said.pop(0) if call.script is KEEP else self.alone for call in calls]


def renewals(count: int) -> list[Keep]:
    return [Renewal(claim(f"n{number}"), 10 + number, 30.0) for number in range(count)]


def kept(port: Any, keeps: Sequence[Keep]) -> list[Standing | Exception]:
    return run_sync(RedisStore(port, "holdfast").keep(keeps, 1.0))


@pytest.mark.parametrize("guard", [False, True])
def test_where_all_is_well_there_is_one_call(guard: bool) -> None:
    port = Port(guard)
    keeps = renewals(100)
    port.said = [[10 + number for number in range(100)]]
    assert kept(port, keeps) == [Held(10 + number, 30.0) for number in range(100)]
    assert [call.script for call in port.calls] == [KEEP]


def test_each_answer_goes_to_its_own_claim_whatever_the_others_are() -> None:
    # Given a good renewal, a downgrade, a claim that the server doesn't know, one with an error,
    # one with a name that can't be sent, and one with another ticket
    port = Port()
    keeps = renewals(6)
    keeps[1] = keeps[1]._replace(weight=1)
    keeps[4] = Renewal(claim("\ud800"), 14, 30.0)
    port.said = [[10, -1, b"ERR odd", 99]]
    found = kept(port, keeps)
    # Then two claims are asked for separately, and each gets its own answer
    assert [call.script for call in port.calls] == [KEEP, STAND, STAND]
    assert found[0] == Held(10, 30.0)
    assert found[1] == found[2] == Gone(Loss.EXPIRED)
    assert isinstance(found[3], HoldfastError)
    assert isinstance(found[4], UnicodeEncodeError)
    assert found[5] == Held(99, 30.0)


def test_in_a_cluster_the_answers_of_the_nodes_are_put_together_in_order() -> None:
    keeps = renewals(50)

    class Cluster(Port):
        async def ask_many(self, calls: Sequence[Call], within: float) -> list[Any]:
            self.calls += calls
            heads = [call.head for call in calls]
            return [
                [keep.ticket for keep in keeps if keep.claim.id.encode() in head] for head in heads
            ]

    port = Cluster(clustered=True)
    assert kept(port, keeps) == [Held(keep.ticket, 30.0) for keep in keeps]
    assert len(port.calls) > 10


def test_an_error_of_the_whole_call_is_that_of_each_claim_in_it() -> None:
    for said in (ServerSaid("LOADING", "LOADING it loads"), StoreUnavailable("planted"), [10], 7):
        port = Port()
        port.said = [said]
        found = kept(port, renewals(2))
        assert [type(one) for one in found] == [StoreUnavailable] * 2


def test_what_the_server_has_forgotten_is_put_back_if_there_is_a_guard() -> None:
    port = Port(guard=True)
    port.said = [[10, -1, 12]]
    kept(port, renewals(3))
    assert [call.script for call in port.calls] == [KEEP, STAND, RECLAIM]
