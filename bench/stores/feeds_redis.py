"""Other feeds over Redis: commands written by hand, and task queues of other projects."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..contenders import peer
from ..feeds import BODY, Feeder
from ..servers import HOST, port

_WORK_S = 60.0


def nothing(_body: str) -> None:
    """Do the work of a job: nothing."""


class ByHand:
    """LPUSH; BLMOVE into a list of taken jobs; LREM from that list. Over redis-py."""

    def __init__(self, place: Path) -> None:
        self._redis = peer("redis").Redis(HOST, port(), single_connection_client=True)
        self._queue, self._taken = f"hand:{place.name}", f"hand:{place.name}:taken"

    def put(self, jobs: int) -> None:
        for _ in range(jobs):
            self._redis.lpush(self._queue, BODY)

    def work(self, jobs: int) -> None:
        for _ in range(jobs):
            self.take()()

    def take(self) -> Callable[[], object]:
        body = self._redis.blmove(self._queue, self._taken, 30, "RIGHT", "LEFT")
        return functools.partial(self._redis.lrem, self._taken, 1, body)

    def close(self) -> None:
        self._redis.close()


class Huey:
    """huey; this process executes the jobs itself, without huey's worker process."""

    def __init__(self, place: Path) -> None:
        self._huey: Any = peer("huey").RedisHuey(
            place.name, host=HOST, port=port(), results=False, blocking=False
        )
        self._job: Callable[[str], object] = self._huey.task()(nothing)

    def put(self, jobs: int) -> None:
        for _ in range(jobs):
            self._job(BODY)

    def work(self, jobs: int) -> None:
        while jobs:
            one = self._huey.dequeue()
            if one is not None:
                self._huey.execute(one)
                jobs -= 1

    def take(self) -> Callable[[], object]:
        raise RuntimeError("it isn't measured")

    def close(self) -> None:
        self._huey.storage.conn.close()


class Rq:
    """rq, with its worker that doesn't fork."""

    def __init__(self, place: Path) -> None:
        self._rq = peer("rq")
        self._redis = peer("redis").Redis(HOST, port())
        self._queue = self._rq.Queue(place.name, connection=self._redis)

    def put(self, jobs: int) -> None:
        for _ in range(jobs):
            self._queue.enqueue(nothing, BODY, result_ttl=0)

    def work(self, jobs: int) -> None:
        worker = self._rq.SimpleWorker([self._queue], connection=self._redis)
        worker.work(burst=True, logging_level="CRITICAL", max_jobs=jobs)

    def take(self) -> Callable[[], object]:
        raise RuntimeError("it isn't measured")

    def close(self) -> None:
        self._redis.close()


class Dramatiq:
    """dramatiq with eight threads."""

    def __init__(self, place: Path) -> None:
        self._dramatiq = peer("dramatiq")
        module = peer("dramatiq.brokers.redis")
        self._broker = module.RedisBroker(
            host=HOST, port=port(), middleware=[], namespace=place.name
        )
        self._done = 0
        self._actor = self._dramatiq.actor(self._count, broker=self._broker, actor_name="count")

    def _count(self, _body: str) -> None:
        self._done += 1

    def put(self, jobs: int) -> None:
        for _ in range(jobs):
            self._actor.send(BODY)

    def work(self, jobs: int) -> None:
        wanted, end = self._done + jobs, time.monotonic() + _WORK_S
        worker = self._dramatiq.Worker(self._broker, worker_threads=8, worker_timeout=100)
        worker.start()
        while self._done < wanted and time.monotonic() < end:
            time.sleep(0.001)
        worker.stop()

    def take(self) -> Callable[[], object]:
        raise RuntimeError("it isn't measured")

    def close(self) -> None:
        self._broker.close()


FEEDERS = (
    Feeder("LPUSH, BLMOVE and LREM", ByHand, package="redis", waits=True),
    Feeder("huey", Huey, package="huey", slow=2),
    Feeder("dramatiq", Dramatiq, package="dramatiq", slow=2),
    Feeder("rq", Rq, package="rq", slow=15),
)
