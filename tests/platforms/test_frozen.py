"""holdfast in tests that freeze the clock: leases and waits follow real time.

``tests/conformance/test_worlds.py`` plays the whole kit like this. There asyncio's own clock still
runs, because the kit sleeps by it; here it is frozen as well.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from freezegun import freeze_time
from time_machine import travel

from holdfast import Client
from holdfast.testing.promise import promised
from tests.conformance.test_worlds import told

Frozen = Callable[[], AbstractContextManager[Any]]

FROZEN: dict[str, Frozen] = {
    "freezegun": lambda: freeze_time("2031-05-01"),
    "time-machine": lambda: travel("2031-05-01T00:00Z", tick=False),
}


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of each kind."""
    urls: dict[str, Callable[[], str]] = {
        "memory": lambda: "memory://frozen",
        "sqlite": lambda: f"sqlite://{tmp_path}/locks.db",
        "redis": lambda: request.getfixturevalue("shared_redis").url,
    }
    return urls[request.param]()


@pytest.mark.parametrize("frozen", FROZEN.values(), ids=FROZEN)
def test_a_lease_ends_for_its_holder_and_for_others_while_the_clock_stands_still(
    frozen: Frozen, url: str, own_name: str
) -> None:
    with frozen(), Client(url) as ours, Client(url) as theirs:
        held = ours.lock(own_name, ttl=0.4, auto_renew=False).acquire()
        assert held is not None
        before = time.time()
        other = theirs.lock(own_name, timeout=10.0).acquire()
        assert time.time() == before
        with promised("one holder at a time"):
            assert held.lost is not None
        assert other is not None
        other.release()


#: The work of an AsyncClient while the clock of its loop is frozen, or is set during a wait.
ASYNC = """
    import asyncio, signal, sys, time
    from freezegun import freeze_time
    from holdfast import AsyncClient
    url, name = sys.argv[1:]
    signal.alarm(20)  # what hangs is ended

    async def core(client):
        async with client.lock(name, ttl=0.6) as hold:
            assert await client.lock(name).acquire(timeout=0.2) is None
            time.sleep(0.3)
            assert await client.lock(name).acquire(timeout=1.0) is None  # it is renewed meanwhile
            hold.check()
        queue = client.queue(name)
        assert await queue.take(timeout=0.2) is None
        await queue.put("job", delay=0.3)
        job = await queue.take(timeout=5)
        assert job.payload == "job" and await job.ack()

        async def slow():
            return "value"

        guard = client.guard(name, ttl=60)
        assert await asyncio.gather(*(guard.get(slow) for _ in range(3))) == ["value"] * 3

    async def main():
        client = AsyncClient(url)
        with freeze_time("2031-05-01"):
            await core(client)
            hold = await client.lock(name, ttl=0.9).acquire()
            lost = asyncio.ensure_future(hold.wait_lost())
        # Timers that were set while the clock stood still ring when it continues
        waits = asyncio.ensure_future(client.lock(name).acquire(timeout=1.4))
        with freeze_time("1971-05-01"):
            assert await waits is None
        hold.check()
        assert await hold.release()
        lost.cancel()
        await core(client)
        await client.close()

    asyncio.run(main())
    print("done")
"""


def test_an_async_client_works_while_the_clock_of_its_loop_stands_still(
    url: str, own_name: str
) -> None:
    assert told("-c", textwrap.dedent(ASYNC), url, own_name) == "done\n"
