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

from holdfast import AsyncClient, Client
from tests.servers.process import until

#: Verbs that a client sends by itself, at random.
BY_ITSELF = re.compile(r"sweep|tidy|tally|^look")
#: Number of waiters, and the seconds for which their statements are counted.
CREW, WAIT_S = 5, 3.0


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
        time.sleep(0.5)  # a new waiter polls more often
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
