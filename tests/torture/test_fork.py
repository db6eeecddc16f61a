"""A fork while other threads are in the middle of a verb: the child can lock for itself."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from holdfast import Client
from holdfast.testing.faults import Fork
from tests.torture.scale import times


def test_a_fork_in_the_middle_of_others_verbs_harms_neither_side(url: str) -> None:
    over = threading.Event()

    def work(name: str) -> None:
        while not over.is_set():
            with client.lock(name, timeout=10):
                pass

    with Client(url) as client, ThreadPoolExecutor(4) as pool:
        working = [pool.submit(work, f"y{number % 2}") for number in range(4)]
        try:
            for turn in range(times(100, 25)):

                def inside(turn: int = turn) -> bool:
                    with client.lock(f"child {turn}", timeout=5), client.lock("y0", timeout=5):
                        return True

                # When children are forked at the same time, then each can lock for itself
                with Fork(inside) as child:
                    assert child.result() is True
        finally:
            over.set()
        for one in working:
            one.result(20)
        assert client.inspect() == []
