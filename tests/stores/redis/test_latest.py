"""A client records the latest fence that it was given, in whichever way it was given.

After a fail-over recovery grants nothing until no new fence can be smaller than that fence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client
from tests.stores.redis.conftest import MakeClient, eventually


def at_once(ours: Client, other: Client, name: str) -> int:
    return ours.lock(name).acquire().fence


def several(ours: Client, other: Client, name: str) -> int:
    return max(ours.all(name, f"{name}:b").acquire().fences.values())


def after_waiting(ours: Client, other: Client, name: str) -> int:
    """The waiter is granted by a wake-up after the release, or when it asks again."""
    hold = other.lock(name).acquire()
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(ours.lock(name).acquire().fence))
    thread.start()
    eventually(lambda: other.inspect(name, exact=True)[0].waiters)
    hold.release()
    thread.join(20)
    return found[0]


def adopted(ours: Client, other: Client, name: str) -> int:
    return ours.adopt(other.lock(name).acquire().detach()).fence


@pytest.mark.parametrize("way", [at_once, several, after_waiting, adopted])
@pytest.mark.parametrize("protocol", [2, 3])
def test_the_latest_fence_is_known(
    new_client: MakeClient,
    redis_url: str,
    own_name: str,
    way: Callable[[Client, Client, str], int],
    protocol: int,
) -> None:
    ours, other = new_client(f"{redis_url}?protocol={protocol}"), new_client()
    store: Any = ours._ctx.store
    fence = way(ours, other, own_name)
    assert store._latest.fence == fence
    # And a late grant with a smaller fence changes nothing
    store._note(fence - 1)
    assert store._latest.fence == fence
