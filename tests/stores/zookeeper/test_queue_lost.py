"""Serial queues when requests are lost, sessions end and servers die.

No job is lost, none is done twice unless its worker died, and the order is kept.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.testing import lag
from holdfast.testing.faces import Face
from holdfast.testing.faults import RESET_REPLY, RESET_REQUEST, Fault, Proxy, Strike
from tests.stores.zookeeper.conftest import MakeClient, eventually, expire, play
from tests.stores.zookeeper.frames import MULTI, of_kind
from tests.stores.zookeeper.jobs import done, taken
from tests.torture.scale import times

lag.watch()
RESETS = pytest.mark.parametrize("fault", [RESET_REQUEST, RESET_REPLY], ids=["request", "reply"])
TRIES = times(50, 1)
#: The modules that handle a job which a take has got.
KNOW = tuple(f"holdfast.stores.zookeeper.queues.{part}" for part in ("idle", "loans", "taking"))


def verb(*words: str) -> Callable[[bytes], bool]:
    """Return a test for a transaction that contains all these words."""
    return lambda message: of_kind(MULTI)(message) and all(one.encode() in message for one in words)


@RESETS
def test_each_verb_that_is_cut_off_is_carried_out_once(
    fault: Fault, face: Face, proxy: Proxy, proxied: str, other: Client, own_name: str
) -> None:
    async def act(client: AsyncClient) -> None:
        for turn in range(TRIES):
            await _each_verb(client.queue(f"{own_name}:{turn}"), fault, proxy, own_name)

    play(face, proxied, act, 100.0)
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
    proxy: Proxy, proxied: str, new_client: MakeClient, other: Client, own_name: str
) -> None:
    queue = new_client(proxied).queue(own_name)
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
        job = taken(other.queue(own_name), 15)
        assert (job.payload, job.attempt) == (1, 1)
        assert job.release()


def test_a_renewal_that_is_cut_off_costs_no_delivery(
    proxy: Proxy, proxied: str, new_client: MakeClient, other: Client, own_name: str
) -> None:
    queue = new_client(proxied).queue(own_name, ttl=4.5)
    queue.put("x", group="g")
    job = taken(queue)
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
    lost = taken(dying.queue(own_name, max_attempts=2))
    # Given a delivery whose session the server ends
    expire(dying)
    begun = time.monotonic()
    again = taken(queue, 20)
    # Then the same job comes before the jobs behind it, with a higher fence and the next attempt
    if group is None and again.payload == 2:  # nothing is promised there
        assert again.ack()
        again = taken(queue, 20)
    assert time.monotonic() - begun < 10 + lag.since(begun)
    assert (again.payload, again.attempt) == (1, 2)
    assert again.fence > lost.fence
    assert not lost.ack()
    assert lost.lost
    again.check()
    # And after its last attempt the job is a dead letter, and the next job is delivered
    again._lease.renewing = False
    expire(other)
    mine = dying.queue(own_name)
    begun = time.monotonic()
    while not (letters := mine.jobs("dead")):
        assert time.monotonic() - begun < 20 + lag.since(begun)
        if another := mine.take(timeout=0.5):
            assert another.payload == 2
            assert another.ack()
    assert [one.attempts for one in letters] == [2]
    assert "did not renew" in letters[0].reason


def test_a_delivery_is_believed_in_for_no_longer_than_a_session_allows(
    new_client: MakeClient, zookeeper_url: str, own_name: str
) -> None:
    queue = new_client(f"{zookeeper_url}?session=4").queue(own_name, ttl=60)
    queue.put("x")
    assert taken(queue).remaining() <= 2.5


def test_the_interval_counts_from_when_a_death_is_noticed(
    new_client: MakeClient, other: Client, short_url: str, own_name: str
) -> None:
    dying = new_client(short_url)
    other.queue(own_name).put("x", group="g")
    taken(dying.queue(own_name, min_interval=1.0))
    expire(dying)
    ended = time.monotonic()
    again = done(other.queue(own_name), 20)
    assert time.monotonic() - ended >= 1.0
    assert again.attempt == 2


#: A coroutine that is interrupted before its first step is never awaited; Python warns about it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_take_that_is_interrupted_leaves_its_job_to_the_next_one(
    new_client: MakeClient, other: Client, own_name: str
) -> None:
    queue = new_client().queue(own_name)
    queue.put(1)
    for number in itertools.count(1):
        strike = Strike(number, within=KNOW)
        with contextlib.suppress(KeyboardInterrupt), strike:
            got = queue.take(1.0)
        if not strike.where:
            break
        found = other.queue(own_name).take(5.0)
        assert found is not None, strike.where
        found.release()
    assert got is not None
    assert number > 50
