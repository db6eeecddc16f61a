"""Several names in one call in a cluster: claimed one by one if their slots differ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from holdfast import AsyncClient, Client
from holdfast.core.model import Claim, Kind, Spec
from holdfast.runtime.blocking import run_sync
from holdfast.stores.redis.keys import bucket_of
from tests.servers.cluster import Cluster

MANY = 10


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.url) as one:
        yield one


def apart(start: str) -> list[str]:
    """Return names of different buckets, on all nodes."""
    return [f"{start}:{number}" for number in range(MANY)]


def beside(start: str) -> list[str]:
    """Return names of one bucket."""
    first = bucket_of(start.encode())
    more = (f"{start}:{number}" for number in range(100_000))
    found = [name for name in more if bucket_of(name.encode()) == first]
    return [start, *found[: MANY - 1]]


@pytest.mark.parametrize("names_of", [apart, beside], ids=["apart", "beside"])
def test_all_names_are_held_and_all_are_released(
    names_of: type, client: Client, cluster: Cluster, own_name: str
) -> None:
    names = names_of(own_name)
    with client.all(*names, timeout=10) as hold:
        assert [line.name for line in client.inspect(own_name)] == sorted(names)
        with Client(cluster.url) as other:
            assert other.all(*names[3:5], own_name + "free").acquire(blocking=False) is None
        hold.check()
    assert not client.inspect(own_name)

    async def on_a_loop() -> None:
        async with AsyncClient(cluster.url) as locks:
            async with locks.all(*names, timeout=10):
                assert len(await locks.inspect(own_name)) == MANY
            assert not await locks.inspect(own_name)

    asyncio.run(on_a_loop())


def test_only_names_of_one_bucket_are_granted_by_one_request(client: Client, own_name: str) -> None:
    client.inspect(own_name)
    store = client._ctx.store

    def claims(names: list[str]) -> list[Claim]:
        return [
            Claim(f"{number:032x}", Spec(name, Kind.LOCK, 1, 1, 2.0, "me"))
            for number, name in enumerate(names)
        ]

    assert run_sync(store.join_free(claims(apart(own_name)), 5.0)) is None
    assert not client.inspect(own_name)
    held = run_sync(store.join_free(claims(beside(own_name)), 5.0))
    assert held is not None
    assert len(client.inspect(own_name)) == MANY
