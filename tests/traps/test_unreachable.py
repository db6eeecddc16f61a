"""A Redis that is started again without its data, and that nobody reaches until later."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast import AsyncClient, Client
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.traps.amnesia import following, tries, url

#: The window, and what is longer than it by far.
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
        # Given a server behind a readiness delay
        at.refuse()
        server.restart(data=False)
        until(lambda: server.info("server")["uptime_in_seconds"] >= LATE_S, "it is up for longer")
        at.heal()
        # When somebody who knows nothing of what was before comes first
        end = time.monotonic() + GRACE_S + 2
        if face == "threads":
            with Client(server.url + "?" + GRACE) as other:
                assert tries(other, "x", end) is None
        else:
            assert asyncio.run(let_in(server.url + "?" + GRACE)) is None
        # Then the holder has come back meanwhile
        hold.check()
        assert hold.release()


async def let_in(address: str) -> object:
    """A hold on x, if it is given one in time."""
    async with AsyncClient(address) as other:
        return await other.lock("x").acquire(timeout=GRACE_S + 2)
