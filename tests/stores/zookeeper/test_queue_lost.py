"""Serial queues when requests are lost, sessions end and servers die.

No job is lost, none is done twice unless its worker died, and the order is kept.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.testing import lag
from holdfast.testing.faces import Face
from holdfast.testing.faults import (
    RESET_REPLY,
    RESET_REQUEST,
    Fault,
    Proxy,
)
from tests.servers.zookeeper import Ensemble
from tests.stores.zookeeper.conftest import MakeClient, eventually, expire
from tests.stores.zookeeper.frames import MULTI, of_kind
from tests.torture.scale import FULL, times

lag.watch()
RESETS = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
TRIES = times(50, 1)


def verb(*words: str) -> Callable[[bytes], bool]:
    """Return a test for a transaction that contains all these words."""
    return lambda message: of_kind(MULTI)(message) and all(one.encode() in message for one in words)


@RESETS
def test_each_verb_that_is_cut_off_is_carried_out_once(
    fault: Fault, face: Face, proxy: Proxy, other: Client, own_name: str
) -> None:
    async def play() -> None:
        client = face.client(f"zookeeper://127.0.0.1:{proxy.port}?session=20")
        try:
            for turn in range(TRIES):
                await _each_verb(client.queue(f"{own_name}:{turn}"), fault, proxy, own_name)
        finally:
            await client.close()

    face.run(play, 100.0)
    for turn in range(TRIES):
        record = other.queue(f"{own_name}:{turn}").stats()
        assert (record.waiting, record.taken, record.dead) == (0, 0, 0)
        assert (record.accepted, record.done) == (5, 5)


async def _each_verb(queue: Any, fault: Fault, proxy: Proxy, name: str) -> None:
    await queue.put("first")
    first = await queue.take(timeout=5)
    assert await first.ack()
    # A put is sent again, and accepted once
    armed = proxy.arm(verb(name, "/lanes/"), fault)
    receipts = await queue.put_many([{"payload": 1, "id": "a"}, 2], group="g")
    assert armed.hits == 1
    armed = proxy.arm(verb(name, "/lanes/"), fault)
    receipts += await queue.put_many([3, 4])
    assert armed.hits == 1
    assert not any(one.duplicate for one in receipts)
    assert (await queue.stats()).waiting == 4
    # A repeated take gets the job of the first request and no other; no other client gets it
    armed = proxy.arm(verb(name, "/taken/"), fault)
    job = await queue.take(timeout=10)
    assert armed.hits == 1
    assert job.attempt == 1
    assert (await queue.stats()).taken == 1
    # A retry, release or ack that is sent again is carried out once, and returns True
    fences = [job.fence]
    for act, attempt in (("retry", 1), ("release", 2)):
        while job.payload != 1:
            assert await job.ack()
            job = await queue.take(timeout=10)
        assert job.attempt == attempt
        armed = proxy.arm(verb(name, "/taken/"), fault)
        assert await (job.retry(in_=0) if act == "retry" else job.release())
        assert armed.hits == 1
        job = await queue.take(timeout=10)
    while job is not None:
        fences.append(job.fence)
        if job.payload == 1:
            assert job.attempt == 2
        armed = proxy.arm(verb(name, "/done"), fault)
        assert await job.ack()
        assert armed.hits == 1
        job = await queue.take(timeout=0)
    assert fences == sorted(set(fences))
    assert (await queue.put("again", id="a", group="g")).duplicate


def test_a_take_without_an_answer_keeps_nothing(
    proxy: Proxy, new_client: MakeClient, other: Client, own_name: str
) -> None:
    client = new_client(f"zookeeper://127.0.0.1:{proxy.port}?session=20")
    queue = client.queue(own_name)
    queue.put_many([1, 2], group="g")
    for _ in range(TRIES):
        # Given a take that the server carries out, and no message that gets through after it
        armed = proxy.arm(verb(own_name, "/taken/"), RESET_REPLY)
        breaker = threading.Thread(target=lambda: (armed.wait(), proxy.refuse()))  # noqa: B023
        breaker.start()
        with contextlib.suppress(StoreUnavailable):
            while queue.take(timeout=0.3):  # as the proxy may have let one more connection pass
                proxy.refuse()
        breaker.join()
        proxy.heal()
        assert armed.hits == 1
        # Then the undo of the take releases the job, as if it had not been taken
        job = other.queue(own_name).take(timeout=15)
        assert job
        assert (job.payload, job.attempt) == (1, 1)
        assert job.release()


def test_a_renewal_that_is_cut_off_costs_no_delivery(
    proxy: Proxy, new_client: MakeClient, other: Client, own_name: str
) -> None:
    client = new_client(f"zookeeper://127.0.0.1:{proxy.port}?session=20")
    queue = client.queue(own_name, ttl=4.5)
    queue.put("x", group="g")
    job = queue.take(timeout=5)
    assert job
    for fault in (RESET_REPLY, RESET_REQUEST):
        armed = proxy.arm(verb(own_name, "/pulse"), fault)
        eventually(lambda armed=armed: armed.hits == 1, 20)  # type: ignore[misc]
        assert other.queue(own_name).take(timeout=0) is None
        job.check()
    assert job.ack()


@pytest.mark.parametrize("group", ["g", None], ids=["group", "plain"])
def test_the_delivery_of_a_lost_session_comes_again_and_its_ack_is_refused(
    group: str | None, new_client: MakeClient, other: Client, short_url: str, own_name: str
) -> None:
    dying = new_client(short_url)
    queue = other.queue(own_name, max_attempts=2)
    queue.put_many([1, 2], group=group)
    lost = dying.queue(own_name, max_attempts=2).take(timeout=5)
    assert lost
    # Given a delivery whose session the server ends
    expire(dying)
    begun = time.monotonic()
    again = queue.take(timeout=20)
    # Then the same job comes before the jobs behind it, with a higher fence and the next attempt
    assert again
    if group is None and again.payload == 2:  # nothing is promised there
        assert again.ack()
        again = queue.take(timeout=20)
        assert again
    assert time.monotonic() - begun < 10 + lag.since(begun)
    assert (again.payload, again.attempt) == (1, 2)
    assert again.fence > lost.fence
    assert not lost.ack()
    assert lost.lost
    again.check()
    # And after its last attempt the job is a dead letter, and the next job is delivered
    again._lease.renewing = False
    expire_now(other, own_name)
    mine = dying.queue(own_name)
    begun = time.monotonic()
    while not (letters := mine.jobs("dead")):
        assert time.monotonic() - begun < 20 + lag.since(begun)
        another = mine.take(timeout=0.5)
        if another:
            assert another.payload == 2
            assert another.ack()
    assert [one.attempts for one in letters] == [2]
    assert "heard of no more" in letters[0].reason


def expire_now(client: Client, name: str) -> None:
    """End the session of this client."""
    assert client.queue(name).stats()
    expire(client)


def test_a_delivery_is_believed_in_for_no_longer_than_a_session_allows(
    new_client: MakeClient, zookeeper_url: str, own_name: str
) -> None:
    queue = new_client(f"{zookeeper_url}?session=4").queue(own_name, ttl=60)
    queue.put("x")
    job = queue.take(timeout=5)
    assert job
    assert job.remaining() <= 2.5
    assert job.ack()


def test_a_session_that_was_lost_leaves_nothing_to_be_done(
    new_client: MakeClient, short_url: str, own_name: str
) -> None:
    client = new_client(short_url)
    queue = client.queue(own_name, ttl=0.5)
    queue.put("x")
    lost = queue.take(timeout=5)
    assert lost
    lost._lease.renewing = False
    expire(client)
    again = queue.take(timeout=20)
    assert again
    assert again.attempt == 2
    assert again.ack()
    store = client._ctx.store
    eventually(lambda: not [*store.queues._loans.alive()])  # type: ignore[attr-defined]
    assert not store.queues._loans.doomed  # type: ignore[attr-defined]


def test_the_interval_counts_from_when_a_death_is_noticed(
    new_client: MakeClient, other: Client, short_url: str, own_name: str
) -> None:
    dying = new_client(short_url)
    other.queue(own_name).put("x", group="g")
    lost = dying.queue(own_name, min_interval=1.0).take(timeout=5)
    assert lost
    expire(dying)
    ended = time.monotonic()
    again = other.queue(own_name).take(timeout=20)
    assert again
    assert time.monotonic() - ended >= 1.0
    assert again.attempt == 2
    assert again.ack()


def test_many_simultaneous_takes_keep_each_group_in_order(
    new_client: MakeClient, other: Client, own_name: str
) -> None:
    groups, each = 6, times(200, 8)
    clients = [new_client() for _ in range(4)]
    seen: dict[str, list[int]] = {f"g{n}": [] for n in range(groups)}
    busy: set[str] = set()
    wrong: list[object] = []

    def work(client: Client) -> None:
        queue = client.queue(own_name)
        while job := queue.take(timeout=4):
            group = str(job.group)
            if group in busy:
                wrong.append(job)
            busy.add(group)
            seen[group].append(job.payload)
            busy.discard(group)
            if not job.ack():
                wrong.append(f"{job} was not ours")

    threads = [threading.Thread(target=work, args=(one,)) for one in clients]
    for number in range(each):
        other.queue(own_name).put_many(
            [{"payload": number, "group": f"g{n}"} for n in range(groups)]
        )
        if number == 1:
            for thread in threads:
                thread.start()
    for thread in threads:
        thread.join(100)
    assert not wrong
    assert seen == {f"g{n}": list(range(each)) for n in range(groups)}


@pytest.mark.skipif(not FULL, reason="HOLDFAST_TORTURE=full; the refunds lose their server")
def test_a_leader_that_is_killed_loses_nothing(
    new_ensemble: Callable[..., Ensemble], new_client: MakeClient
) -> None:
    ensemble = new_ensemble()
    putter = new_client(f"{ensemble.url}?session=10")
    worker = new_client(f"{ensemble.url}?session=10")
    accepted: list[int] = []
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    over = threading.Event()

    def put() -> None:
        number = 0
        while not over.is_set():
            try:
                putter.queue("q").put(number, group=f"g{number % 3}", id=f"id:{number}")
            except StoreUnavailable:
                continue  # the same again
            accepted.append(number)
            number += 1

    thread = threading.Thread(target=put)
    thread.start()
    with worker.queue("q").worker(lambda job: seen[job.payload % 3].append(job.payload)):
        for _ in range(5):
            begun = len(accepted)
            eventually(lambda begun=begun: len(accepted) > begun + 20, 60)  # type: ignore[misc]
            killed = ensemble.leader
            killed.kill()
            begun = len(accepted)
            eventually(lambda begun=begun: len(accepted) > begun + 20, 60)  # type: ignore[misc]
            killed.begin()
            ensemble.settle()
        over.set()
        thread.join(60)
        eventually(lambda: sum(len(set(some)) for some in seen.values()) == len(accepted), 60)
    for some in seen.values():
        assert list(dict.fromkeys(some)) == sorted(set(some))
