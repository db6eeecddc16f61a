"""Each node in ZooKeeper is damaged, one at a time; ``tests/stores/damage.py`` has the scenario."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.damage import (
    Damaged,
    test_what_is_damaged_is_refused_clearly_or_healed_in_time,
    test_without_damage_the_scenario_plays_to_its_end,
)
from tests.stores.zookeeper.ground import ZooKeeperGround

__all__ = [
    "test_what_is_damaged_is_refused_clearly_or_healed_in_time",
    "test_without_damage_the_scenario_plays_to_its_end",
]


@pytest.fixture
def damaged(shared_zookeeper: ZooKeeperServer) -> Iterator[Damaged]:
    """The server that all tests share; only nodes of the names of one round are damaged."""
    one = ZooKeeperGround(shared_zookeeper)
    yield Damaged(one, items=24, usual=6, at_once=6)
    one.close()
