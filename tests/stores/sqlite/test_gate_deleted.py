"""The file mutex is deleted while clients use it: their replies stay true."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.model import Held, Kind, Leave
from holdfast.sync.queue import Queue
from holdfast.testing.promise import promised
from tests.stores.sqlite.books import audit
from tests.stores.sqlite.desk import WITHIN_S, Desk, claim
from tests.stores.sqlite.products import jobs_of, values_of
from tests.torture.scale import times


@contextmanager
def without_gate(path: Path, engine: Any) -> Iterator[None]:
    """Delete the file mutex when this client commits for the first time."""
    gate = Path(f"{path}.d/gate")
    connection: sqlite3.Connection = engine._files.connection

    def delete(statement: str) -> None:
        if statement == "COMMIT" and struck:
            struck.pop()
            gate.unlink()

    struck = [True]
    connection.set_trace_callback(delete)
    yield
    assert not struck, "nothing was committed"


ANSWERS: dict[str, tuple[Callable[[Queue], Any], Callable[[Queue, Any], object], object]] = {
    "put": (lambda q: None, lambda q, _: q.put("x", id="x").duplicate, False),
    "ack": (lambda q: q.take(timeout=0), lambda q, job: job.ack(), True),
    "retry": (lambda q: q.take(timeout=0), lambda q, job: job.retry(), True),
    "dead letter": (lambda q: q.take(timeout=0), lambda q, job: job.dead_letter(), True),
    "release": (lambda q: q.take(timeout=0), lambda q, job: job.release(), True),
    "revive": (lambda q: q.take(timeout=0).dead_letter(), lambda q, _: q.retry_dead(), 1),  # type: ignore[union-attr]
    "purge": (lambda q: None, lambda q, _: q.purge(), 2),
}


@pytest.mark.parametrize("verb", ANSWERS)
def test_a_commit_while_the_file_mutex_was_deleted_is_reported(
    path: Path, client: Client, verb: str
) -> None:
    before, act, expected = ANSWERS[verb]
    queue = client.queue("q")
    queue.put_many([1, 2])
    given = before(queue)
    with without_gate(Path(f"{path}-queues"), jobs_of(client)):
        answer = act(queue, given)
    with promised("an answer is true"):
        assert answer == expected
    queue.stats()
    audit(path)


def test_acks_are_true_while_the_file_mutex_is_deleted_repeatedly(path: Path, url: str) -> None:
    # Given workers, and a thread that repeatedly deletes their file mutex
    jobs, over = times(4000, 60), threading.Event()

    def delete() -> None:
        while not over.wait(0.02):
            Path(f"{path}-queues.d/gate").unlink(missing_ok=True)

    def work(_: int) -> list[tuple[int, bool]]:
        acked = []
        with Client(f"{url}?sync=none") as client:
            queue = client.queue("q", ttl=60)
            while True:
                with suppress(StoreUnavailable):
                    job = queue.take(timeout=0)
                    if job is None:
                        return acked
                    acked.append((job.payload, job.ack()))

    with Client(url) as client:
        client.queue("q").put_many(range(jobs))
    with ThreadPoolExecutor(4) as pool:
        pool.submit(delete)
        acked = [one for some in list(pool.map(work, range(3), timeout=100)) for one in some]
        over.set()
    # Then each job was acked once, and its worker got True
    with promised("an ack that took effect returns True"):
        assert sorted(acked) == [(job, True) for job in range(jobs)]
    assert audit(path) == {"q": (0, 0, 0)}


# -- locks and values ----------------------------------------------------------------------------


@pytest.fixture
def idle(path: Path, desk: Callable[..., Desk]) -> Desk:
    """A client that has files open whose mutex was deleted."""
    here = desk()
    assert here.free()
    Path(f"{path}.d/gate").unlink()
    return here


@pytest.mark.parametrize("long", [False, True], ids=["alone", "with a line"])
def test_a_claim_in_the_files_that_took_their_place_is_found(
    idle: Desk, desk: Callable[..., Desk], long: bool
) -> None:
    there = desk()
    name = "x" * (500 if long else 5)
    one, two = claim(name), claim(f"{name}2")
    fence, other = there.hold(one), there.hold(two)
    assert idle.leave(one, fence)
    assert there.lines(one.spec.name) == [] or there.free(name)
    leave = Leave(two.spec.name, two.id, other)
    assert idle.engine.leave_all([leave], WITHIN_S) == [True]


def test_permits_are_those_of_the_files_that_took_their_place(
    idle: Desk, desk: Callable[..., Desk]
) -> None:
    there = desk()
    wanted = claim("pool", kind=Kind.SEMAPHORE, capacity=2)
    assert isinstance(there.join(wanted), Held)
    assert idle.engine.resize("pool", 5, WITHIN_S) == 2
    assert there.lines("pool")[0].capacity == 5


def test_an_invalidation_while_the_file_mutex_was_deleted_takes_effect(
    path: Path, client: Client
) -> None:
    guard = client.guard("g", ttl=60)
    guard.get(lambda: "old")
    engine = values_of(client)
    with without_gate(Path(f"{path}-values"), engine):
        assert guard.invalidate() == 1
    assert guard.get(lambda: "new") == "new"
