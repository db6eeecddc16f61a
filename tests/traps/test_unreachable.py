"""A Redis that restarts without its data, and that no client reaches for some time after that."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast import AsyncClient, Client
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.traps.amnesia import following, tries, url

#: The grace period, and a much longer time.
GRACE_S, LATE_S = 2.0, 5.0
GRACE = f"grace={GRACE_S}"


@pytest.mark.usual(1)
@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_an_empty_server_that_is_reached_long_after_its_start_costs_no_holder_its_hold(
    new_redis: NewRedis, face: str
) -> None:
    server = new_redis()
    with following(server) as at, Client(url(at.port, GRACE)) as holder:
        hold = holder.lock("x", ttl=30).acquire()
        # Given a server that no client can reach for some time after its start
        at.refuse()
        server.restart(data=False)
        until(lambda: server.info("server")["uptime_in_seconds"] >= LATE_S, "it is up for longer")
        at.heal()
        # When a client that knows nothing of the earlier holds connects first
        end = time.monotonic() + GRACE_S + 2
        if face == "threads":
            with Client(server.url + "?" + GRACE) as other:
                assert tries(other, "x", end) is None
        else:
            assert asyncio.run(let_in(server.url + "?" + GRACE)) is None
        # Then it isn't granted the lock, and the holder has renewed
        hold.check()
        assert hold.release()


async def let_in(address: str) -> object:
    """Return a hold on x if it is granted in time, else None."""
    async with AsyncClient(address) as other:
        return await other.lock("x").acquire(timeout=GRACE_S + 2)
