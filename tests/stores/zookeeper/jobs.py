"""Parts that the tests of serial queues share: jobs, nodes, and a client's clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kazoo.client import KazooClient

from holdfast import Client
from holdfast.stores.zookeeper.queues.names import place_of
from holdfast.stores.zookeeper.requests import Multi


def base(name: str) -> str:
    """The path of the queue."""
    return place_of("/holdfast", name).base


def inside(kazoo: KazooClient, name: str, folder: str) -> list[str]:
    """The names of the nodes in one folder of the queue."""
    return sorted(kazoo.get_children(f"{base(name)}/{folder}"))


def multis(asked: Iterable[list[object]]) -> int:
    """The number of round trips that contain a transaction."""
    return sum(any(isinstance(one, Multi) for one in some) for some in asked)


def taken(queue: Any, within: float = 10.0) -> Any:
    """The next job of this queue."""
    job = queue.take(timeout=within)
    assert job
    return job


def done(queue: Any, within: float = 10.0) -> Any:
    """The next job of this queue, which is acked."""
    job = taken(queue, within)
    assert job.ack()
    return job


def wrong_clock(client: Client, seconds: float) -> Any:
    """Make a client's estimate of the leader's time too late by these seconds; return the clock."""
    clock = client._ctx.store.queues._talk.clock  # type: ignore[attr-defined]
    clock._low += seconds
    clock._high += seconds
    return clock
