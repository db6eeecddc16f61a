"""A feed of another library over ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..feeds import BODY, Feeder
from ..servers import url


class LockingQueue:
    """kazoo's LockingQueue: an ephemeral node marks an entry as taken; then it is consumed."""

    def __init__(self, place: Path) -> None:
        from kazoo.client import KazooClient

        self._client: Any = KazooClient(hosts=url().partition("://")[2])
        self._client.start(30)
        self._queue = self._client.LockingQueue(f"/locking/{place.name}")

    def put(self, jobs: int) -> None:
        for _ in range(jobs):
            self._queue.put(BODY.encode())

    def work(self, jobs: int) -> None:
        for _ in range(jobs):
            self.take()()

    def take(self) -> Callable[[], object]:
        assert self._queue.get(30) is not None
        consume: Callable[[], object] = self._queue.consume
        return consume

    def close(self) -> None:
        self._client.stop()
        self._client.close()


FEEDERS = (Feeder("kazoo LockingQueue", LockingQueue, package="kazoo", slow=2, waits=True),)
