"""Several names in one call in a cluster: claimed one by one if their slots differ."""

from __future__ import annotations

import pytest

from holdfast.stores.redis.keys import bucket_of
from holdfast.testing.faces import Face
from tests.servers.cluster import Cluster

MANY = 10


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
async def test_all_names_are_held_and_all_are_released(
    face: Face, names_of: type, cluster: Cluster, own_name: str
) -> None:
    names = names_of(own_name)
    async with face.client(cluster.url) as locks, face.client(cluster.url) as other:
        async with locks.all(*names, timeout=10) as hold:
            assert [line.name for line in await locks.inspect(own_name)] == sorted(names)
            some = other.all(*names[3:5], own_name + "free")
            assert await some.acquire(blocking=False) is None
            hold.check()
        assert not await locks.inspect(own_name)
