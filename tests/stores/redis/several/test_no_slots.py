"""A cluster that isn't created yet, or is created again: no node has a slot."""

from __future__ import annotations

import pytest

from holdfast import StoreUnavailable
from holdfast.stores.redis.slots import SLOTS
from holdfast.testing.faces import FACES, Face
from tests.servers.fixtures import NewRedis


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_cluster_without_slots_is_unavailable_until_slots_are_added(
    face: Face, new_redis: NewRedis, own_name: str
) -> None:
    server = new_redis("cluster-enabled yes", known=False)

    async def play() -> None:
        async with face.client(f"redis+cluster://127.0.0.1:{server.port}?recovery=off") as client:
            with pytest.raises(StoreUnavailable, match=r"no node of .* has a slot"):
                await client.lock(own_name).acquire(blocking=False)
            server.ask("CLUSTER", "ADDSLOTS", *range(SLOTS))
            async with client.lock(own_name, timeout=10):
                pass

    face.run(play, 60.0)
