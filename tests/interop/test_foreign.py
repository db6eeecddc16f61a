"""A client of one side can neither acquire nor release what the other side holds."""

from __future__ import annotations

import pytest

from tests.interop.crew import Crew
from tests.interop.pairs import PAIRS, Pair
from tests.servers.redis_server import RedisServer

LEASE_S = 60.0


@pytest.mark.parametrize("ours", ["holdfast", "holdfast-asyncio"])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_release_by_another_client_is_refused_both_ways(
    pair: Pair, ours: str, crew: Crew, shared_redis: RedisServer, own_name: str
) -> None:
    both = crew.several([(ours, 0), (pair.client, 0)], pair.place(shared_redis))
    key = pair.prefix + own_name
    for holder, other in (both, both[::-1]):
        # Given a holder
        assert holder.ask("acquire", name=own_name, kind="lock", wait=0, lease=LEASE_S)["held"]
        before = shared_redis.ask("DUMP", key)
        assert before
        # When the other side tries to acquire the lock, and to release it
        assert not other.ask("acquire", name=own_name, kind="lock", wait=0, lease=LEASE_S)["held"]
        assert other.ask("steal", name=own_name, kind="lock")["refused"]
        # Then the hold and its lease are unchanged
        assert shared_redis.ask("DUMP", key) == before
        assert 0 < shared_redis.ask("PTTL", key) <= LEASE_S * 1000
        # And the holder can release it
        assert holder.ask("release", name=own_name)["released"]
        assert not shared_redis.ask("EXISTS", key)
