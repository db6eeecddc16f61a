"""The verbs of serial queues, called directly."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from typing import Any

from holdfast.core.queue.model import (
    Delivered,
    Extend,
    Job,
    Pace,
    Patience,
    Put,
    Settle,
    Take,
    Taken,
    Verdict,
)
from holdfast.core.queue.ports import Queues, queues_of
from holdfast.runtime.blocking import run_sync
from holdfast.url import find

#: Maximum seconds for a request of a test.
WITHIN_S = 20.0


def new_id() -> str:
    """32 hexadecimal digits."""
    return uuid.uuid4().hex


class Verbs:
    """The verbs of one queue; each instance is a separate producer."""

    def __init__(self, url: str, queue: str) -> None:
        module, parsed = find(url)
        self.store = module.open_blocking(parsed)
        self.queues: Queues = queues_of(self.store)
        self.queue = queue
        self.lane = new_id()
        self._numbers = itertools.count(1)

    def request(self, *jobs: Job, window: float = 60.0) -> Put:
        """The next put request."""
        return Put(self.queue, self.lane, next(self._numbers), jobs, window)

    def put(self, *jobs: Job, window: float = 60.0) -> list[bool]:
        """Put these jobs."""
        return self.send(self.request(*jobs, window=window))

    def send(self, put: Put) -> list[bool]:
        """Send this put request, for the first time or again."""
        return run_sync(self.queues.put(put, WITHIN_S))

    def wish(
        self,
        most: int = 1,
        ttl: float = 30.0,
        pace: Pace | None = None,
        patience: Patience | None = None,
        wait: bool = False,
    ) -> Take:
        """A new take request."""
        what = (most, ttl, "host:1:test", pace or Pace(), patience or Patience(), wait)
        return Take(self.queue, new_id(), *what)

    def take(self, take: Take) -> list[Delivered]:
        """Send this take request, for the first time or again; return its deliveries."""
        return list(self.asked(take).deliveries)

    def asked(self, take: Take) -> Taken:
        """Send this take request; return the whole reply."""
        return run_sync(self.queues.take(take, WITHIN_S))

    def give_back(self, take: Take) -> int:
        """Undo this take; return the number of released deliveries."""
        return run_sync(self.queues.give_back(take, WITHIN_S))

    def settle(
        self, take: Take, jobs: Sequence[Delivered], verdict: Verdict = Verdict.ACK, **more: Any
    ) -> list[Any]:
        """Settle these deliveries of the take."""
        settles = [Settle(self.queue, j.group, j.seq, take.id, verdict, **more) for j in jobs]
        return run_sync(self.queues.settle(settles, WITHIN_S))

    def extend(self, take: Take, jobs: Sequence[Delivered], ttl: float) -> list[Any]:
        """Renew these deliveries of the take."""
        extends = [Extend(self.queue, j.group, j.seq, take.id, j.fence, ttl) for j in jobs]
        return run_sync(self.queues.extend(extends, WITHIN_S))

    def drain(self) -> list[Delivered]:
        """Take and settle jobs until none is due; return them in this order."""
        found: list[Delivered] = []
        while got := self.take(take := self.wish(most=100)):
            assert all(self.settle(take, got))
            found += got
        return found

    def close(self) -> None:
        """End its connections."""
        run_sync(self.store.close())


def job(payload: Any, group: str = "", key: str = "", delay: float = 0.0) -> Job:
    """A job; with ``key``, a job whose id the caller chose."""
    return Job(key or new_id(), group, str(payload).encode(), delay, bool(key))
