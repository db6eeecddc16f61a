"""A server comes back with older data or none: whatever a client was doing works again."""

from __future__ import annotations

import time
from itertools import product

import pytest

from holdfast.testing import lag
from holdfast.testing.faces import FACES, now
from tests.comeback.roles import ROLES, Player, guard
from tests.comeback.worlds import CLUSTER, MADE, TTL_S, WAYS, ClusterWorld, World

#: Maximum seconds from the server's return until everything works.
BACK_S = 10.0
#: Seconds without a server: after them every earlier lease has expired.
AWAY_S = TTL_S + 0.5
EVERY = [*product([one for one in MADE if one != CLUSTER], WAYS), (CLUSTER, "wiped")]


@pytest.mark.usual(1)
@pytest.mark.parametrize("scheme, way", EVERY)
def test_every_client_activity_works_again_after_an_outage(
    scheme: str, way: str, own_name: str, request: pytest.FixtureRequest
) -> None:
    lag.watch()
    make = request.getfixturevalue(MADE[scheme])
    world = ClusterWorld(make) if scheme == CLUSTER else World(scheme, make)
    # Given clients in each role, on both faces
    roles = [one for one in ROLES if one is not guard or scheme != "zookeeper"]  # which has none
    players = [Player(face, one, world.url, own_name) for face in FACES.values() for one in roles]
    try:
        _all_work(players, 0.0, 60.0)
        world.remember()
        _all_work([one for one in players if "idle" not in one.what], now(), 60.0)
        # When the server comes back with other data
        world.lose(way)
        time.sleep(AWAY_S)
        world.back()
        back = now()
        # Then all of them work again, and none has ended
        for one in players:
            one.woken.set()
        _all_work(players, back, BACK_S + lag.since(back))
        took = {one.what: round(one.worked - back, 1) for one in players}
        print(f"{scheme} {way}: works after {max(took.values())} s: {took}")
    finally:
        for one in players:
            one.woken.set()
            one.told.set()
        for one in players:
            one.join(60)


def _all_work(players: list[Player], since: float, within: float) -> None:
    """Wait until each role has succeeded since then."""
    end, late = now() + within, [""]
    while late:
        assert now() < end, f"after {within:.1f} s these don't work: {late}"
        for one in players:
            assert one.is_alive(), f"{one.what} has ended: {one.failure!r}"
        late = [one.what for one in players if one.worked <= since]
        time.sleep(0.02)
