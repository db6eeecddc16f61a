"""Each key on Redis is damaged, one at a time: see ``tests/stores/damage.py``."""

from __future__ import annotations

import pytest

from tests.servers.fixtures import NewRedis
from tests.stores.damage import (
    Damaged,
    test_what_is_damaged_is_refused_clearly_or_healed_in_time,
    test_without_damage_the_scenario_plays_to_its_end,
)
from tests.stores.redis.ground import RedisGround

__all__ = [
    "test_what_is_damaged_is_refused_clearly_or_healed_in_time",
    "test_without_damage_the_scenario_plays_to_its_end",
]


@pytest.fixture
def damaged(new_redis: NewRedis) -> Damaged:
    return Damaged(RedisGround(new_redis()), items=24, usual=15, at_once=12)
