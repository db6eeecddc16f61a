"""The cost of waiting for another library's lock: commands that the server counts."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from holdfast import Client, StoreUnavailable
from tests.interop.crew import Crew
from tests.interop.pairs import PLAIN, REDISSON, Pair
from tests.servers.fixtures import NewRedis
from tests.servers.process import until
from tests.servers.redis_server import RedisServer
from tests.torture.scale import FULL, times

WAITERS = 8
#: Maximum commands per second of one waiter.
MOST = 2.0
#: The commands of a waiting client; others come from scripts or from the test.
SENT = ("evalsha", "eval", "hello", "client|setname", "client|tracking", "client|caching")
#: With notifications of changes from the server, and without.
PROTOCOLS = ("protocol=3", "protocol=2")


#: The plain family is tested with one library, since waiting costs the same for all of them.
PAIRS = {"redis-py": PLAIN["redis-py"], **(REDISSON if FULL else {})}


class Queue:
    """Waiters of holdfast for a lock that another library holds."""

    def __init__(self, url: str, server: RedisServer) -> None:
        self.server = server
        self._locks = Client(url)
        self._threads = [threading.Thread(target=self._wait) for _ in range(WAITERS)]
        for thread in self._threads:
            thread.start()

    def _wait(self) -> None:
        with contextlib.suppress(StoreUnavailable):  # our client is closed in the end
            self._locks.lock("x").acquire()

    def waits(self) -> bool:
        """True if each waiter has sent two attempts: one to enter, and one as a waiter."""
        return self.sent().get("evalsha", 0) >= 2 * WAITERS

    def sent(self) -> dict[str, int]:
        """The number of times each command was sent since the statistics were reset."""
        return {name: calls for name, calls in self.server.calls().items() if name in SENT}

    def close(self) -> None:
        """Close the client, so that the waiters give up."""
        self._locks.close()
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_waiter_sends_at_most_two_commands_a_second(
    pair: Pair, crew: Crew, new_redis: NewRedis
) -> None:
    seconds = times(20, 2)
    with contextlib.ExitStack() as ends:
        # Given locks that other libraries hold, and many waiters of holdfast
        queues = []
        for number, protocol in enumerate(PROTOCOLS):
            server = new_redis()
            holder = crew.get(pair.client, pair.place(server), number)
            assert holder.ask("acquire", name="x", kind="lock", wait=0, lease=60)["held"]
            queues.append(Queue(pair.url(server, protocol), server))
            ends.callback(queues[-1].close)
        # When they wait for some seconds
        for queue in queues:
            until(queue.waits, "all of them wait")
        time.sleep(0.3)
        for queue in queues:
            queue.server.ask("CONFIG", "RESETSTAT")
        begun = time.monotonic()
        time.sleep(seconds)
        # Then each waiter sends at most ``MOST`` commands a second
        for queue, protocol in zip(queues, PROTOCOLS, strict=True):
            sent = queue.sent()
            each = sum(sent.values()) / WAITERS / (time.monotonic() - begun)
            print(f"{protocol}: {each:.2f} commands per second and waiter: {sent}")
            assert each <= MOST
