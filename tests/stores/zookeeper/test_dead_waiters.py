"""A line of ten thousand nodes, dead or foreign in part: the cost of each verb stays bounded."""

from __future__ import annotations

import secrets
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from kazoo.client import KazooClient

from holdfast import Client
from holdfast.core.model import Claim, Held, Keep, Kind, Leave, Refused, Spec, Waiting
from holdfast.runtime.blocking import run_sync
from holdfast.stores.zookeeper.names import KAZOO, beginning
from holdfast.testing import lag
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.zookeeper.conftest import MakeClient
from tests.torture.scale import times

lag.watch()

MOST = times(9_900, 3_000)
#: Maximum seconds and requests of a verb on a busy machine.
BOUND_S, REQUESTS = 0.5, 12
#: Maximum seconds to inspect the whole line, with one request for each node.
LOOK_S = 8.0
WITHIN_S = 10.0
#: The share of nodes that outlive their session, like nodes that another library forgot.
FOREIGN = ["none", "half", "all"]


def a_claim(name: str) -> Claim:
    """A new claim to a lock."""
    return Claim(secrets.token_hex(16), Spec(name, Kind.LOCK, 1, 1, 60.0, "somebody", ""))


def crowd(client: KazooClient, folder: str, many: int, lasting: int) -> None:
    """Let ``many`` waiters enter a line; ``lasting`` percent of their nodes outlive the session."""
    asked: list[Any] = []
    for number in range(many):
        path = f"{folder}/{beginning(a_claim('x'), False, KAZOO)}"
        stays = number % 100 < lasting
        asked.append(client.create_async(path, b"", ephemeral=not stays, sequence=True))
        if len(asked) == 500 or number == many - 1:
            for one in asked:
                one.get(timeout=60)
            asked.clear()


class Counted:
    """The verbs of a store, each with a limit for its time and its requests."""

    def __init__(self, client: Client) -> None:
        self.store: Any = client._ctx.store
        self._asked = 0
        port = self.store._port
        ask = port.ask

        async def counting(requests: Any, until: float) -> Any:
            self._asked += len(requests)
            return await ask(requests, until)

        port.ask = counting

    def __call__(
        self, verb: Coroutine[Any, Any, Any], bound: float = BOUND_S, requests: int = REQUESTS
    ) -> Any:
        """Run the verb within its limits and return its reply."""
        self._asked, begun = 0, time.monotonic()
        answer = run_sync(verb)
        took = time.monotonic() - begun
        assert took < bound + lag.since(begun), f"{took:.3g} s"
        assert self._asked <= requests, f"{self._asked} requests"
        return answer


@pytest.mark.usual(0)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_verbs_are_bounded_and_the_living_served_behind_thousands_of_dead(
    kazoo: KazooClient,
    shared_zookeeper: ZooKeeperServer,
    new_client: MakeClient,
    own_name: str,
    foreign: str,
) -> None:
    # Given a holder, thousands of waiters, and one more waiter behind them
    done, folder = Counted(new_client(label="ours")), f"/holdfast/{own_name}"
    store, holder, living = done.store, a_claim(own_name), a_claim(own_name)
    held = done(store.join(holder, True, WITHIN_S))
    theirs = shared_zookeeper.client()
    crowd(theirs, folder, MOST, {"none": 0, "half": 50, "all": 100}[foreign])
    standing = done(store.join(living, True, WITHIN_S))
    assert isinstance(standing, Waiting)
    assert standing.position == MOST + 1
    keep = Keep(living, standing.ticket, 60.0)
    # Then the cost of each verb is bounded
    assert isinstance(done(store.join(a_claim(own_name), False, WITHIN_S)), Refused)
    done(store.keep([Keep(holder, held.fence, 60.0)], WITHIN_S))
    assert isinstance(done(store.keep([keep], WITHIN_S))[0], Waiting)
    (line,) = done(store.inspect(own_name, WITHIN_S, True), LOOK_S, MOST + REQUESTS)
    assert len(line.claims) >= MOST
    assert done(store.leave(Leave(own_name, holder.id, held.fence), WITHIN_S))
    # And the last waiter is granted once the session has ended and foreign nodes are removed
    theirs.stop()
    theirs.close()
    if foreign != "none":
        left = [one for one in kazoo.get_children(folder) if not store._own.claims.get(one)]
        mine = store._own.claims[living.id].node
        gone = [kazoo.delete_async(f"{folder}/{one}") for one in left if one != mine]
        for one in gone:
            one.wait(60)
    end = time.monotonic() + 20
    while not isinstance(done(store.keep([keep], WITHIN_S))[0], Held):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert done(store.leave(Leave(own_name, living.id, standing.ticket), WITHIN_S))
