"""Feeds of our own queues, for any store."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from holdfast import Client
from holdfast.sync.queue import Delivery

from ..feeds import BATCH, BODY, GROUPS, Feeder


class OneByOne:
    """One request for each job."""

    grouped = False

    def __init__(self, url: str, name: str) -> None:
        self._client = Client(url)
        self._queue = self._client.queue(name)
        self._numbers = itertools.count()

    def _group(self) -> str | None:
        return f"g{next(self._numbers) % GROUPS}" if self.grouped else None

    def put(self, jobs: int) -> None:
        for _ in range(jobs):
            self._queue.put(BODY, group=self._group())

    def work(self, jobs: int) -> None:
        for _ in range(jobs):
            self._taken().ack()

    def _taken(self) -> Delivery:
        job = self._queue.take(30)
        assert job is not None
        return job

    def take(self) -> Callable[[], object]:
        return self._taken().ack

    def close(self) -> None:
        self._client.close()


class Loop(OneByOne):
    """One put for each job, and a loop that executes them: its take of a job acks the last one."""

    def work(self, jobs: int) -> None:
        for job in self._queue.consume(timeout=30):
            jobs -= 1
            if not jobs:
                job.ack()
                break


class GroupedLoop(Loop):
    """`Loop` with jobs of a hundred groups."""

    grouped = True


class Grouped(OneByOne):
    """`OneByOne` with jobs of a hundred groups."""

    grouped = True


class Batches(OneByOne):
    """One request for a hundred jobs."""

    def put(self, jobs: int) -> None:
        items = [{"payload": BODY, "group": self._group()} for _ in range(jobs)]
        for start in range(0, jobs, BATCH):
            self._queue.put_many(items[start : start + BATCH])

    def work(self, jobs: int) -> None:
        while jobs > 0:
            found = self._queue.take_many(BATCH, 30)
            jobs -= len(found)
            self._queue.ack_many(found)


class GroupedBatches(Batches):
    """One request for a hundred jobs, each of another group."""

    grouped = True


def feeders(url: Callable[[Path], str]) -> tuple[Feeder, ...]:
    """Return all feeders of holdfast, on the store of a folder."""

    def of(kind: type[OneByOne]) -> Callable[[Path], OneByOne]:
        return lambda place: kind(url(place), f"bench:{place.name}")

    return (
        Feeder("holdfast", of(OneByOne), waits=True),
        Feeder("holdfast, grouped", of(Grouped)),
        Feeder("holdfast, a loop", of(Loop)),
        Feeder("holdfast, a loop, grouped", of(GroupedLoop)),
        Feeder("holdfast, batches", of(Batches)),
        Feeder("holdfast, grouped, batches", of(GroupedBatches)),
    )
