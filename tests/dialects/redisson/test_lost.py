"""Requests and replies that are lost or late: no claim enters twice, and each answer is true."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.dialects.redisson.library import (
    JOIN,
    JOIN_FAIR,
    JOIN_PERMITS,
    JOIN_READ,
    JOIN_WRITE,
    LEAVE,
)
from holdfast.testing.faults import (
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
)
from tests.torture.scale import times

from .conftest import BOTH, Scene, played

RESETS = (RESET_REQUEST, RESET_REPLY)
#: Number of attempts in each of 28 scenes.
TRIES = times(150, 5)
Make = Callable[[Client, str], object]
KINDS = {
    "lock": (JOIN, "", lambda client, name: client.lock(name)),
    "fair": (JOIN_FAIR, "fair=true", lambda client, name: client.lock(name)),
    "fenced": (JOIN, "fenced=true", lambda client, name: client.lock(name)),
    "read": (JOIN_READ, "", lambda client, name: client.rwlock(name).read),
    "write": (JOIN_WRITE, "", lambda client, name: client.rwlock(name).write),
    "counted": (
        JOIN_PERMITS,
        "permits=counted",
        lambda client, name: client.semaphore(name, 5, weight=3),
    ),
    "permits": (JOIN_PERMITS, "", lambda client, name: client.semaphore(name, 5, weight=3)),
}


def left(at: Scene, name: str) -> list[bytes]:
    """The keys of a name, without records for late requests, and without full counters."""
    keys: list[bytes] = at.redis.keys(f"*{name}*")
    mere = (b"redisson_unlock_latch", b"holdfast_tombstone", b"redisson_lock_token")
    free = [key for key in keys if not key.startswith(mere)]
    return [key for key in free if at.redis.type(key) != b"string" or at.redis.get(key) != b"5"]


@played(kinds=KINDS, faults=RESETS)
async def test_a_join_that_is_cut_off_is_sent_again_and_counts_once(at: Scene) -> None:
    script, words, make = KINDS[at.kind]
    client = at.client(words, at.proxy.port)
    await (await make(client, f"{at.name}:warm").acquire()).release()
    for number in range(TRIES):
        name = f"{at.name}:{number}"
        armed = at.proxy.arm(script.sha, at.fault)
        hold = await make(client, name).acquire(timeout=5)
        assert armed.hits == 1
        if at.kind in ("permits", "counted"):
            assert at.redis.get(name) == b"2"
        else:
            assert set(at.redis.hvals(name)) - {b"read", b"write"} == {b"1"}
        assert await hold.release()
        assert left(at, name) == []


@played(kinds=KINDS, faults=RESETS)
async def test_a_release_that_is_cut_off_returns_the_truth(at: Scene) -> None:
    _, words, make = KINDS[at.kind]
    client = at.client(words, at.proxy.port)
    for number in range(TRIES):
        name = f"{at.name}:{number}"
        hold = await make(client, name).acquire(timeout=5)
        armed = at.proxy.arm(LEAVE.sha, at.fault)
        assert await hold.release() is True
        assert armed.hits == 1
        assert left(at, name) == []


@played(faults=RESETS)
async def test_a_repeated_release_does_not_end_a_later_hold(at: Scene) -> None:
    client = at.client("", at.proxy.port)
    hold = await client.lock(at.name).acquire()
    at.peer.hear(f"redisson_lock__channel:{{{at.name}}}")

    def take() -> None:
        if at.peer.heard() is not None:
            at.peer.lock(at.name)

    taker = threading.Thread(target=take)
    taker.start()
    at.proxy.arm(LEAVE.sha, at.fault)
    assert await hold.release() is True
    taker.join()
    assert at.redis.hgetall(at.name) == {at.peer.me.encode(): b"1"}


@played(kinds=KINDS)
async def test_a_join_that_arrives_after_its_leave_finds_the_tombstone(at: Scene) -> None:
    script, words, make = KINDS[at.kind]
    client = at.client(words, at.proxy.port)
    await (await make(client, f"{at.name}:warm").acquire()).release()
    # Given a join that is delayed, and whose caller has given up
    held = at.proxy.arm(script.sha, HOLD_REQUEST)
    with pytest.raises(ConnectionError):
        await make(client, at.name).acquire(timeout=0.2)
    await at.until(lambda: at.redis.keys(f"holdfast_tombstone:{{{at.name}}}:*"), 10.0)
    # When the join arrives
    held.let_go()
    await at.face.sleep(0.2)
    # Then it enters nothing
    assert left(at, at.name) == []
    hold = await make(at.client(words), at.name).acquire(blocking=False)
    assert await hold.release()


@played(versions=BOTH)
async def test_a_release_that_is_sent_again_is_answered_as_the_first_was(at: Scene) -> None:
    client = at.client()
    hold = await client.lock(at.name).acquire()
    leave = hold._leave_of(hold._lease)
    store = client._ctx.store
    # Given a release whose reply was lost, and a peer that has taken the lock since
    requests = store._requests
    assert await store._port.ask(requests.leave(leave), 5.0) == 1
    at.peer.lock(at.name)
    # When the release is sent again: like current Redisson, holdfast has stored the reply
    again = await store._port.ask(requests.leave(leave), 5.0)
    assert again == (0 if at.version == "3.8.1" else 1)
    assert at.redis.hkeys(at.name) == [at.peer.me.encode()]
    assert await hold.release() is (at.version == "current")


@played()
async def test_a_question_of_a_waiter_that_arrives_after_its_leave_takes_nothing(at: Scene) -> None:
    client = at.client("", at.proxy.port)
    await (await client.lock(f"{at.name}:warm").acquire()).release()
    at.peer.lock(at.name)
    waiter = at.face.start(lambda: client.lock(at.name).acquire(timeout=3.5))
    await at.listening(f"redisson_lock__channel:{{{at.name}}}")
    await at.face.sleep(0.1)
    # Given a delayed request of a waiter; later requests are answered, and the waiter gives up
    held = at.proxy.arm(JOIN.sha, HOLD_REQUEST)
    with contextlib.suppress(StoreUnavailable):  # a busy server: it leaves all the same
        assert await waiter.result() is None
    assert held.hits == 1
    await at.until(lambda: at.redis.keys(f"holdfast_tombstone:{{{at.name}}}:*"))
    # When the request arrives, and the name is free
    at.peer.unlock(at.name)
    held.let_go()
    await at.face.sleep(0.2)
    # Then no claim holds the name
    assert not at.redis.exists(at.name)
