"""A line whose keys were changed from outside: see ``tests/stores/damaged_lines.py``."""

from __future__ import annotations

from tests.servers.clock import Clock
from tests.servers.fixtures import NewRedis
from tests.stores.damaged_lines import Lines, no_claim_holds_next_to_another
from tests.stores.redis.ground import RedisGround
from tests.torture.scale import seed_of, times

#: Seeds that once led to two holders. The state of a line was removed while its claims stayed, or
#: the weight of a holder was raised, so that it released more than it had acquired.
KNOWN = (314, 941, 1073, 9406)


def test_clients_that_come_after_damage_exclude_each_other(
    new_redis: NewRedis, server_clock: Clock
) -> None:
    with server_clock.worn():
        server = new_redis()
    seed = seed_of("damaged lines")
    seeds = iter([*KNOWN, *range(seed, seed + times(5000, 20))])
    no_claim_holds_next_to_another(Lines(RedisGround(server), server_clock), seeds)
