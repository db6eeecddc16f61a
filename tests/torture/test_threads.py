"""Many threads on one lock object."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from holdfast import Client
from tests.torture.scale import times

THREADS, ROUNDS = 8, times(400, 100)


def test_threads_on_one_name_hold_it_one_after_the_other(url: str) -> None:
    inside: list[int] = []
    fences: list[int] = []

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            with lock as hold:
                inside.append(number)
                assert inside == [number]
                fences.append(hold.fence)
                inside.remove(number)

    with Client(url) as client, ThreadPoolExecutor(THREADS) as pool:
        lock = client.lock("x")
        working = [pool.submit(work, number) for number in range(THREADS)]
        failures = [failure for one in working if (failure := one.exception(120))]
        assert not failures, failures[0]
        assert len(fences) == THREADS * ROUNDS
        assert fences == sorted(set(fences))
        assert client.inspect() == []
