"""The cost of verbs: see ``tests/stores/sql/costs.py``; waits, and a deep queue."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import threading
import time

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.stores.mysql import queues as of_queues
from tests.stores.sql.costs import *  # noqa: F403
from tests.stores.sql.costs import Counting
from tests.stores.sql.queueing import Verbs, job
from tests.torture.scale import FULL, times

#: Number of idle workers, and the seconds for which their statements are counted.
IDLE, IDLE_S = 3, 2.0
SHALLOW, DEPTH, GROUPS = 1000, times(1_000_000, 5_000), times(100_000, 3000)
TAKES = times(1000, 60)


def test_many_holds_are_renewed_by_one_statement(counting: Counting) -> None:
    with Client(counting.server.url) as client:
        client.lock("warm").acquire().release()
        holds = [client.lock(f"kept:{at}", ttl=3.0).acquire() for at in range(50)]
        counting.since()
        time.sleep(3.5)
        for hold in holds:
            hold.check()
        sent = counting.verbs()
        # On a busy machine the renewals can come in several statements
        assert "renew" in sent
        assert set(sent) <= {"renew", "stand"}
        assert len(sent) < 50
        for hold in holds:
            hold.release()


def test_an_idle_worker_asks_less_than_ten_times_a_second(counting: Counting) -> None:
    # Given a worker without jobs, and tasks that begin a new wait again and again
    stop = threading.Event()

    def work() -> None:
        with Client(counting.server.url) as client:
            worker = client.queue("idle").worker(lambda job: None).start()
            stop.wait(60)
            worker.stop()
            worker.join()

    async def wait(client: AsyncClient) -> None:
        while not stop.is_set():
            with contextlib.suppress(StoreUnavailable):  # the last ask has little time
                await client.queue("idle").take(timeout=0.5)

    async def tasks() -> None:
        async with AsyncClient(counting.server.url) as client:
            await asyncio.gather(*(wait(client) for _ in range(IDLE - 1)))

    crew = [threading.Thread(target=work), threading.Thread(target=lambda: asyncio.run(tasks()))]
    for one in crew:
        one.start()
    time.sleep(1.0)
    # When they have waited for a while
    counting.since()
    begun = time.monotonic()
    time.sleep(IDLE_S)
    sent = counting.since()
    took = time.monotonic() - begun
    stop.set()
    for one in crew:
        one.join()
    # Then each waiter sends at most ten statements a second
    rate = len(sent) / took / IDLE
    print(f"{rate:.1f} statements a second for each who waits")
    assert rate <= 10


def test_a_waiter_asks_less_than_ten_times_a_second(counting: Counting) -> None:
    inside, go = threading.Event(), threading.Event()

    def compute() -> int:
        inside.set()
        go.wait(20)
        time.sleep(1.5)
        return 1

    with Client(counting.server.url) as one, Client(counting.server.url) as two:
        assert two.guard("warm", ttl=60).get(lambda: 1) == 1
        first = threading.Thread(target=lambda: one.guard("slow", ttl=60).get(compute))
        first.start()
        assert inside.wait(20)
        counting.since()
        go.set()
        begun = time.monotonic()
        assert two.guard("slow", ttl=60).get(lambda: 2) == 1
        took = time.monotonic() - begun
        looks = [said for said in counting.since() if said.startswith("SELECT ended")]
        first.join(20)
    print(f"{len(looks)} looks in {took:.1f} s")
    assert 3 < len(looks) < 5 + 10 * took


def test_the_depth_of_a_queue_costs_nothing(counting: Counting) -> None:
    server = counting.server
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
    shallow.close()
    deep.close()


def test_nothing_is_left_of_what_is_done(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = counting.server
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
