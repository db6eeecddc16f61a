"""Migration from another library's locks to holdfast's own, so that never both are held."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager

import pytest
import redis

from holdfast import Client
from tests.dialects.conftest import Ours
from tests.servers.redis_server import RedisServer
from tests.torture.scale import times

ROUNDS = times(200, 12)
#: Enters the locked section of one kind of program: old, both, or new.
Inside = Callable[[], AbstractContextManager[object]]


@pytest.fixture
def programs(
    ours: Ours, raw: redis.Redis, shared_redis: RedisServer, prefix: str
) -> Iterator[tuple[Inside, Inside, Inside]]:
    """The three kinds of program that run during a migration."""
    foreign = ours()
    with Client(shared_redis.url) as native:

        @contextmanager
        def both() -> Iterator[None]:
            new_lock = native.lock(f"{prefix}job", ttl=20)
            with foreign.lock("job", ttl=20) as first, new_lock as second:
                yield
                first.check()
                second.check()

        old = lambda: raw.lock(f"{prefix}job", timeout=20, sleep=0.002)  # noqa: E731
        yield old, both, lambda: native.lock(f"{prefix}job", ttl=20)


def most_inside(crew: list[Inside]) -> int:
    """The largest number of programs inside at the same time, while all of them enter and leave."""
    inside: list[int] = []
    most = 0

    def work(number: int) -> None:
        nonlocal most
        for _ in range(ROUNDS):
            with crew[number]():
                inside.append(number)
                most = max(most, len(inside))
                time.sleep(0.002)
                inside.remove(number)

    with ThreadPoolExecutor(len(crew)) as pool:
        for one in [pool.submit(work, number) for number in range(len(crew))]:
            one.result(60)
    return most


def test_a_program_that_holds_both_locks_excludes_the_old_and_the_new(
    programs: tuple[Inside, Inside, Inside],
) -> None:
    old, both, new = programs
    assert most_inside([old, both, both]) == 1
    assert most_inside([both, both, new, new]) == 1
    with old(), new():
        pass  # both are inside: so there must be nobody of the one when the other comes
