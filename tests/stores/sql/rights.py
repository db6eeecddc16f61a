"""A lock by both faces, and all verbs of all products, for a user with few rights."""

from __future__ import annotations

import threading
import time

import pytest

from holdfast import Client
from holdfast.testing.faces import FACES, Face


def by_both(url: str, name: str = "x", timeout: float = 60) -> None:
    """Acquire a lock by both faces."""
    for face in FACES.values():

        async def main(face: Face = face) -> None:
            async with face.client(url) as client, client.lock(name, timeout=timeout):
                pass

        face.run(main, 90)


def use_all(url: str, name: str) -> None:
    """Use every verb with this URL; the tables exist already."""
    with Client(url) as one, Client(url) as two:
        locks(one, two, name)
        queues(one, two, name)
        guards(one, two, name)
    by_both(url, f"{name}:both")


def locks(one: Client, two: Client, name: str) -> None:
    """The verbs of locks; a renewal, a waiter, a token and an operator are among them."""
    with one.semaphore(name, permits=2).acquire() as hold:
        hold.extend()
        assert one.semaphore(name, permits=2).resize(3) == 2
        assert two.inspect(name)[0].holders
    with one.all(f"{name}:a", f"{name}:b"):
        pass
    hold = one.lock(name, ttl=4).acquire()
    served: list[int] = []
    lock = two.lock(name)
    waiter = threading.Thread(target=lambda: served.append(lock.acquire(timeout=20).fence))
    waiter.start()
    adopted = two.adopt(hold.detach())
    assert adopted.release()
    waiter.join(30)
    assert served[0] > adopted.fence
    assert one.lock(name).acquire(blocking=False) is None
    assert one.break_(name, served[0])


def queues(one: Client, two: Client, name: str) -> None:
    """The verbs of queues."""
    queue = one.queue(name, max_attempts=1, rate=100, min_interval=0.01)
    queue.put_many([1, {"payload": 2, "id": "known"}], group="g")
    job = two.queue(name).take(timeout=5)
    assert job is not None
    assert job.release()
    with two.queue(name, ttl=4).take(timeout=5) as job:  # type: ignore[union-attr]
        time.sleep(1.6)  # it is renewed meanwhile
    job = queue.take(timeout=5)
    assert job is not None
    assert job.retry()
    assert queue.retry_dead() == len(queue.jobs()) == queue.stats().waiting == queue.purge() == 1
    assert queue.jobs() == []


def guards(one: Client, two: Client, name: str) -> None:
    """The verbs of refresh guards."""
    guard = one.guard(name, ttl=60, lease=3)

    def compute() -> int:
        time.sleep(1.2)  # its duty is renewed meanwhile
        return 1

    assert guard.get(compute) == 1
    assert two.guard(name, ttl=60).get_many(["", "kept"], len) == {"": 1, "kept": 4}
    with pytest.raises(ZeroDivisionError):
        guard.get(lambda: 1 // 0, key="c")
    assert guard.invalidate("", "c") == 1
    assert guard.inspect().version == 0
    assert guard.stats().computes in (2, 3)  # with those of the other client, or not yet
