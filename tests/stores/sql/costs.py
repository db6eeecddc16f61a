"""The number of statements that verbs and waiters send, counted by the server.

The tests of a store import these. It has the fixture ``counting``.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from holdfast import AsyncClient, Client
from holdfast.testing.faces import FACES, Face
from tests.servers.process import until

#: Verbs that a client sends by itself, at random.
BY_ITSELF = re.compile(r"sweep|tidy|tally|^look")
#: Number of waiters, and the seconds for which their statements are counted.
CREW, WAIT_S = 5, 3.0
EACH = pytest.mark.parametrize("face", FACES.values(), ids=FACES)


class Counting(NamedTuple):
    """A server that counts statements. ``since`` returns those since its last call.

    ``rate``: the maximum number of requests that a waiter sends in a second.
    """

    server: Any
    since: Callable[[], list[str]]
    rate: float

    def verbs(self) -> list[str]:
        """The verbs that clients sent since the last call; a plain query has an empty name."""
        called = (re.search(r"(?:holdfast_)?(\w+?)_\d+ ?\(", one) for one in self.since())
        names = [one[1].removeprefix("holdfast_") if one else "" for one in called]
        return [one for one in names if not BY_ITSELF.search(one)]


@EACH
@pytest.mark.usual(2)
def test_each_verb_of_a_lock_is_one_statement(counting: Counting, face: Face) -> None:
    async def main() -> None:
        async with face.client(counting.server.url) as client:
            await (await client.lock("warm").acquire()).release()
            counting.verbs()
            hold = await client.lock("x").acquire()
            assert len(counting.verbs()) == 1
            for verb in (hold.extend, hold.release):
                assert await verb()
                assert len(counting.verbs()) == 1
            several = await client.all(*(f"many:{at}" for at in range(20))).acquire()
            assert len(counting.verbs()) == 1
            assert await several.release()
            assert len(counting.verbs()) == 1
            assert await client.inspect() == []
            assert len(counting.verbs()) == 1

    face.run(main, 60)


@EACH
@pytest.mark.usual(2)
def test_each_verb_of_a_queue_is_one_statement(counting: Counting, face: Face) -> None:
    async def main() -> None:
        async with face.client(counting.server.url) as client:
            queue = client.queue(f"q {face.name}")
            await queue.put("warm")
            counting.verbs()
            await queue.put_many(range(100), group="g")
            assert len(counting.verbs()) == 1
            first, second = await queue.take_many(10, timeout=5)
            assert len(counting.verbs()) == 1
            assert await first.ack()
            assert len(counting.verbs()) == 1
            assert (await queue.stats()).taken == 1
            assert len(await queue.jobs()) == 100
            assert len(counting.verbs()) == 2
            assert await second.ack()

    face.run(main, 60)


@EACH
@pytest.mark.usual(2)
def test_a_fresh_hit_is_one_statement_and_a_computation_three(
    counting: Counting, face: Face
) -> None:
    keys = [f"{number}" for number in range(100)]

    async def compute(key: str = "") -> int:
        return len(key)

    async def main() -> None:
        async with face.client(counting.server.url) as client:
            guard = client.guard(f"g {face.name}", ttl=60)
            wanted = {key: len(key) for key in keys}
            assert await guard.get_many(keys, compute) == wanted
            counting.verbs()
            for _ in range(20):
                assert await guard.get(compute, key="1") == 1
            assert len(counting.verbs()) == 20
            assert await guard.get_many(keys, compute) == wanted
            assert len(counting.verbs()) == 1
            assert await guard.get(compute, key="a new one") == 0
            assert len(counting.verbs()) == 3
            assert await guard.invalidate(*keys) == 100
            assert len(counting.verbs()) == 1

    face.run(main, 60)


def test_a_waiter_asks_rarely(counting: Counting) -> None:
    # Given a holder and waiters behind it, one of them a task
    url = counting.server.url

    def wait() -> None:
        with Client(url) as client, client.lock("busy", timeout=60):
            pass

    async def wait_too() -> None:
        async with AsyncClient(url) as client, client.lock("busy", timeout=60):
            pass

    with Client(url) as client, client.lock("busy"):
        crew = [threading.Thread(target=wait) for _ in range(CREW - 1)]
        crew.append(threading.Thread(target=lambda: asyncio.run(wait_too())))
        for one in crew:
            one.start()
        until(lambda: len(client.inspect("busy")[0].waiters) == CREW, "all wait")
        time.sleep(0.5)  # who has just begun to wait looks more often
        # When they have waited for a while
        counting.verbs()
        begun = time.monotonic()
        time.sleep(WAIT_S)
        sent = [one for one in counting.verbs() if one != "renew"]
        took = time.monotonic() - begun
    for one in crew:
        one.join()
    rate = len(sent) / took / CREW
    print(f"{rate:.1f} statements a second for each waiter")
    assert rate <= counting.rate
