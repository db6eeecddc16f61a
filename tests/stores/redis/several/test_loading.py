"""A node of a cluster that loads its data for longer than the grace period."""

from __future__ import annotations

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.stores.redis.slots import SLOTS
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.stores.redis.several.conftest import grown


def test_a_node_that_comes_back_late_is_not_taken_for_one_with_a_slot_that_has_moved(
    new_redis: NewRedis, own_name: str
) -> None:
    # Given a node that has granted a lock
    server = new_redis("cluster-enabled yes", known=False)
    server.ask("CLUSTER", "ADDSLOTS", *range(SLOTS))
    until(lambda: b"cluster_state:ok" in server.ask("CLUSTER", "INFO"), "the cluster is whole")
    grown([server])
    url = f"redis+cluster://{server.host}:{server.port}"
    with Client(url) as holder:
        holder.lock(own_name).acquire().release()
    # When it starts again with its saved data, and loading takes longer than the grace period
    server.ask("SAVE")
    server.kill()
    server.start()
    until(lambda: b"cluster_state:ok" in server.ask("CLUSTER", "INFO"), "the cluster is whole")
    grown([server])
    # Then it grants nothing new before the earlier holders could have renewed
    with Client(url) as other:
        with pytest.raises(StoreUnavailable, match=r"grants nothing for \d\.\d s more"):
            other.lock(own_name).acquire(blocking=False)
        assert other.lock(own_name).acquire(timeout=10)
