"""Migration from another library's locks to holdfast's own, so that never both are held."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis

from holdfast import Client
from tests.dialects.conftest import Ours
from tests.servers.redis_server import RedisServer
from tests.torture.scale import times

ROUNDS = times(200, 12)
#: Enters the locked section of one program: a context that is entered once it holds.
Inside = Callable[[], contextlib.AbstractContextManager[None]]


class Fleet:
    """The three kinds of program that run during a migration."""

    def __init__(self, ours: Ours, raw: redis.Redis, native: Client, prefix: str) -> None:
        self.ours, self.raw, self.native, self.prefix = ours, raw, native, prefix

    def old(self) -> Inside:
        @contextmanager
        def inside() -> Iterator[None]:
            with self.raw.lock(f"{self.prefix}job", timeout=20, sleep=0.002):
                yield

        return inside

    def both(self) -> Inside:
        foreign = self.ours()

        @contextmanager
        def inside() -> Iterator[None]:
            with (
                foreign.lock("job", ttl=20) as first,
                self.native.lock(f"{self.prefix}job", ttl=20) as second,
            ):
                yield
                first.check()
                second.check()

        return inside

    def new(self) -> Inside:
        @contextmanager
        def inside() -> Iterator[None]:
            with self.native.lock(f"{self.prefix}job", ttl=20):
                yield

        return inside


@pytest.fixture
def fleet(ours: Ours, raw: redis.Redis, shared_redis: RedisServer, prefix: str) -> Iterator[Fleet]:
    with Client(shared_redis.url) as native:
        yield Fleet(ours, raw, native, prefix)


def most_inside(crew: list[Inside]) -> int:
    """The largest number of programs inside at the same time, while all of them enter and leave."""
    within = threading.Lock()
    inside = most = 0

    def work(enter: Inside) -> None:
        nonlocal inside, most
        for _ in range(ROUNDS):
            with enter():
                with within:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.002)
                with within:
                    inside -= 1

    threads = [threading.Thread(target=work, args=(enter,)) for enter in crew]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return most


def test_a_program_that_holds_both_locks_excludes_the_old_and_the_new(fleet: Fleet) -> None:
    assert most_inside([fleet.old(), fleet.both(), fleet.both()]) == 1
    assert most_inside([fleet.both(), fleet.both(), fleet.new(), fleet.new()]) == 1


def test_the_old_and_the_new_do_not_exclude_each_other(fleet: Fleet) -> None:
    with fleet.old()(), fleet.new()():
        pass  # both are inside: so there must be nobody of the one when the other comes
