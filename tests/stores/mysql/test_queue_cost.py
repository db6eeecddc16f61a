"""The number of statements of queue verbs, counted by the server; a deep queue costs no more."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import threading
import time
from collections.abc import Callable

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.stores.mysql import queues as of_queues
from tests.servers.mariadb_server import MariadbServer
from tests.stores.mysql.conftest import play
from tests.stores.mysql.queueing import Verbs, job
from tests.stores.mysql.test_cost import count, kinds, server
from tests.torture.scale import FULL, times

__all__ = ["count", "server"]
Count = Callable[[], list[str]]
CREW, WAIT_S = 3, 2.0
SHALLOW, DEPTH, GROUPS = 1000, times(1_000_000, 5_000), times(100_000, 3000)
TAKES = times(1000, 60)


def test_each_verb_is_one_statement(server: MariadbServer, count: Count) -> None:
    with Client(server.url) as client:
        queue = client.queue("q")
        queue.put("warm")
        count()
        queue.put_many(range(100), group="g")
        assert kinds(count()) == ["holdfast_queue_put_2"]
        first, second = queue.take_many(10, timeout=5)
        assert kinds(count()) == ["holdfast_queue_take_2"]
        first.ack()
        assert kinds(count()) == ["holdfast_queue_settle_2"]
        queue.stats()
        queue.jobs()
        assert len(count()) == 2
        second.ack()


def test_under_asyncio_too(server: MariadbServer, count: Count) -> None:
    async def main() -> None:
        async with AsyncClient(server.url) as client:
            queue = client.queue("aio")
            await queue.put("warm")
            count()
            job = await queue.take(timeout=5)
            assert job is not None
            assert await job.ack()
            assert kinds(count()) == ["holdfast_queue_take_2", "holdfast_queue_settle_2"]

    play(main)


def test_an_idle_worker_asks_less_than_ten_times_a_second(
    server: MariadbServer, count: Count
) -> None:
    # Given a worker without jobs, and tasks that begin a new wait again and again
    stop = threading.Event()

    def work() -> None:
        with Client(server.url) as client:
            worker = client.queue("idle").worker(lambda job: None).start()
            stop.wait(60)
            worker.stop()
            worker.join()

    async def wait(client: AsyncClient) -> None:
        while not stop.is_set():
            with contextlib.suppress(StoreUnavailable):  # the last ask has little time
                await client.queue("idle").take(timeout=0.5)

    async def tasks() -> None:
        async with AsyncClient(server.url) as client:
            await asyncio.gather(*(wait(client) for _ in range(CREW - 1)))

    crew = [threading.Thread(target=work), threading.Thread(target=lambda: asyncio.run(tasks()))]
    for one in crew:
        one.start()
    time.sleep(1.0)
    # When they have waited for a while
    count()
    begun = time.monotonic()
    time.sleep(WAIT_S)
    sent = count()
    took = time.monotonic() - begun
    stop.set()
    for one in crew:
        one.join()
    # Then each waiter sends at most ten statements a second
    rate = len(sent) / took / CREW
    print(f"{rate:.1f} statements a second for each who waits")
    assert rate <= 10


def test_the_depth_of_a_queue_costs_nothing(server: MariadbServer) -> None:
    # Given a queue with few jobs, and one with many, half of them in groups
    server.ask("SET GLOBAL general_log = 0")
    shallow, deep = (Verbs(server.url, name) for name in ("shallow", "deep"))
    for verbs, depth in ((shallow, SHALLOW), (deep, DEPTH)):
        for start in range(0, depth, 1000):
            numbers = range(start, start + 1000)
            verbs.put(*(job(at, f"g{at % GROUPS}" if at % 2 else "") for at in numbers))
    # When jobs are taken and settled in turn
    spent: dict[str, list[float]] = {"shallow": [], "deep": []}
    for _ in range(TAKES):
        for verbs in (shallow, deep):
            request = verbs.wish()
            begun = time.perf_counter()
            got = verbs.take(request)
            assert verbs.settle(request, got) == [True]
            spent[verbs.queue].append(time.perf_counter() - begun)
    found = {name: statistics.median(some) for name, some in spent.items()}
    ratio = found["deep"] / found["shallow"]
    print(f"{DEPTH} jobs: {ratio:.2f} times what {SHALLOW} take", found)
    # Then the deep queue costs no more; a short run on a busy machine shows only a large difference
    assert ratio <= (1.5 if FULL else 4.0)
    # And a list of the few delivered jobs does not read the other jobs
    assert len(deep.take(deep.wish(most=3))) == 3
    read = ("Handler_read_key", "Handler_read_next", "Handler_read_rnd_next")
    with Client(server.url) as client:
        client.queue("deep").stats()
        before = sum(server.counts(*read).values())
        own = sum(server.counts(*read).values()) - before
        assert len(client.queue("deep").jobs("taken")) == 3
        assert sum(server.counts(*read).values()) - before - 2 * own < 300
    for verbs in (shallow, deep):
        verbs.close()


def test_nothing_is_left_of_what_is_done(
    server: MariadbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an empty queue whose remembered data has expired, except for one take
    verbs = Verbs(server.url, "swept")
    verbs.put(*(job(at, f"g{at}", f"key {at}") for at in range(20)), job("x"), window=0.0)
    kept = verbs.wish(most=5)
    assert len(verbs.take(kept)) == 5
    verbs.give_back(kept)
    server.ask("DELETE FROM holdfast.holdfast_takes WHERE id <> %s", bytes.fromhex(kept.id))
    held = verbs.wish()
    got = verbs.take(held)
    verbs.drain()
    server.ask("UPDATE holdfast.holdfast_tracks SET moment = moment - 7200000000 WHERE stands = 4")
    server.ask("UPDATE holdfast.holdfast_takes SET ends = 1 WHERE buried")
    server.ask("UPDATE holdfast.holdfast_lanes SET minute = 1")
    monkeypatch.setattr(of_queues, "SWEEP_EVERY", 1)
    # When another client takes
    verbs.put(job("one", "other"), window=0.0)
    verbs.drain()

    # Then only the rows of the delivery and of the group used in the last hour are left
    def rows(table: str) -> int:
        ((found,),) = server.ask(f"SELECT COUNT(*) FROM holdfast.holdfast_{table}")
        return int(found)

    mine = " JOIN holdfast.holdfast_queues q ON q.id = t.queue WHERE q.name = 'swept'"
    left = server.ask(f"SELECT t.grp, t.stands FROM holdfast.holdfast_tracks t{mine}")
    assert sorted(left) == sorted([(got[0].group.encode(), 2), (b"other", 4)])
    assert (rows("takes"), rows("lanes")) == (1, 1)
    ((ids,),) = server.ask(f"SELECT COUNT(*) FROM holdfast.holdfast_ids t{mine}")
    assert ids == (1 if got[0].group else 0)
    assert verbs.settle(held, got) == [True]
    assert rows("takes") == 0
    verbs.close()
