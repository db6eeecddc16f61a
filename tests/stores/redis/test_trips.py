"""The requests of a hand-off, and the connections of a client."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from holdfast import Client
from tests.stores.redis.conftest import Counted, MakeClient, eventually


def cost(counter: Counted, work: Callable[[], object]) -> int:
    before = counter.requests
    work()
    return counter.requests - before


@pytest.fixture(params=[3, 2], ids=["resp3", "resp2"])
def client(request: pytest.FixtureRequest, counter: Counted, new_client: MakeClient) -> Client:
    one = new_client(f"redis://127.0.0.1:{counter.port}?protocol={request.param}")
    one.lock("warm").acquire().release()
    return one


@pytest.mark.parametrize("auto_renew, trips", [(True, 2), (False, 3)], ids=["push", "ask"])
def test_a_contended_hand_off(
    auto_renew: bool, trips: int, client: Client, other: Client, counter: Counted, own_name: str
) -> None:
    """A join and a leave; and one more request if the rest of the waiter TTL isn't enough."""
    # Given a client that listens already
    lock = client.lock(own_name, auto_renew=auto_renew)

    def wait() -> None:
        lock.acquire().release()

    def hand_over() -> None:
        holder = other.lock(own_name).acquire()
        thread = threading.Thread(target=wait)
        thread.start()
        eventually(lambda: other.inspect(own_name)[0].waiters)
        holder.release()
        thread.join(10)

    hand_over()
    # (one more, if the waiter has to ask again because the machine stalls)
    assert min(cost(counter, hand_over) for _ in range(3)) == trips
    assert counter.connections <= 2
